"""Tests that every method must pass: a suite to inherit, also for a method of your own.

    from fedorbit.testing import MethodConformance

    class TestMyMethod(MethodConformance):
        method = MyMethod()

and run pytest. Each test runs real training on small synthetic images.
"""

from fedorbit.testing.conformance import MethodConformance, assert_same, assert_sound
from fedorbit.testing.playing import Snapshot, play, reached, reloaded, snapshots
from fedorbit.testing.worlds import (
    EVENTS,
    PATTERN,
    ROUNDS,
    SCARCE_POWER,
    SCARCE_TIME,
    fleet_of,
    members,
    small_world,
    with_inverted_images,
)

__all__ = [
    "EVENTS",
    "PATTERN",
    "ROUNDS",
    "SCARCE_POWER",
    "SCARCE_TIME",
    "MethodConformance",
    "Snapshot",
    "assert_same",
    "assert_sound",
    "fleet_of",
    "members",
    "play",
    "reached",
    "reloaded",
    "small_world",
    "snapshots",
    "with_inverted_images",
]
