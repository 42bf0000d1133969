"""Training samples that change satellites once, before the first round.

Test samples stay where they are, and so does what is derived from the partition, such as beta.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedorbit.fleet.roster import Ints
from fedorbit.randomness import generator


class Move(NamedTuple):
    """Samples that one satellite gives to another."""

    source: int
    target: int
    samples: Ints
    """Number of samples of each class."""

    @property
    def total(self) -> int:
        """Number of samples."""
        return int(self.samples.sum())


def moved_parts(
    parts: Sequence[Ints], labels: Ints, moves: Sequence[Move], seed: int
) -> tuple[Ints, ...]:
    """Return each satellite's samples after all moves, in their order; which go is drawn."""
    held = list(parts)
    for number, move in enumerate(moves):
        rng = generator(seed, "offload", number, move.source, move.target)
        mine = rng.permutation(held[move.source])
        chosen = np.concatenate(
            [mine[labels[mine] == c][:count] for c, count in enumerate(move.samples)]
        )
        held[move.source] = np.setdiff1d(held[move.source], chosen)
        held[move.target] = np.sort(np.concatenate((held[move.target], chosen)))
    return tuple(held)
