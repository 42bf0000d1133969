"""Log-priors: what a satellite's mixture of classes adds to its logits (logit adjustment).

Menon et al., "Long-tail learning via logit adjustment", 2021. P(image | class) is the same
everywhere, P(class) is not. With the log-prior of its own samples added to the logits, local
training leaves P(class) out of the model. Where the model is used, the log-prior of the orbit or
satellite that uses it is added:

log pi_c = log((n_c + 1/2) / (n + C/2))

with n_c of n samples of class c, of C classes. The half stands for a class that was never seen.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def log_prior(counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return log pi of counts `[..., classes]`."""
    total = counts.sum(axis=-1, keepdims=True) + 0.5 * counts.shape[-1]
    return np.asarray(np.log((counts + 0.5) / total), dtype=np.float32)


def log_priors(
    labels: NDArray[np.int64], parts: Sequence[NDArray[np.int64]], classes: int
) -> NDArray[np.float32]:
    """Return log pi of each part of the samples, `[part, class]`."""
    return log_prior(np.stack([np.bincount(labels[part], minlength=classes) for part in parts]))
