"""Synthetic images dealt like those of a run, on which a method may learn before it begins.

Satellites have the run's mix of classes, and a model has the run's shape. No image of the run is
among them: what is learned here was known before any satellite took one.
"""

from dataclasses import dataclass

from fedorbit.fleet.roster import Ints
from fedorbit.learning.engine import Engine


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """An engine for jobs of the run's satellites on other images."""

    engine: Engine
    train: Ints
    """Samples of all satellites, for `engine.evaluate`."""
    held_out: Ints
    """Samples of none."""
