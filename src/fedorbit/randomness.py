"""Randomness is a key, not a stream.

Every draw in the project comes from `generator(seed, purpose, *ids)`. The same key always gives
the same generator, so there is no generator state to save, and neither resuming a run nor the
number of threads can change a result.
"""

import hashlib

import numpy as np


def generator(seed: int, purpose: str, *ids: int) -> np.random.Generator:
    """Return the generator that belongs to this key.

    >>> generator(0, "split", 3).integers(100) == generator(0, "split", 3).integers(100)
    np.True_
    """
    key = repr((int(seed), purpose, tuple(int(i) for i in ids))).encode()
    digest = hashlib.blake2b(key, digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
