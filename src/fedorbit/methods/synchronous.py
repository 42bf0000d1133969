"""Servers that wait for all orbits: epochs, and how an orbit takes part in one.

An *epoch* lasts from one aggregation to the next. An orbit takes part in it by an *attempt*: a
server hands w to the orbit, its crew trains, and results come back. Whatever belongs to an older
attempt, or to an epoch that is closed, is dropped. State beside that of `global_model`:

    began          slot in which the last epoch ended
    attempt        [orbit]: number of its last attempt
    crew           [satellite]: whether it takes part in it
    is_in          [satellite]: whether a server has its training of this epoch
    total, mass    of the models that servers have: their sum, weighted by samples; its weight

A satellite that is lost before its model is in ends the attempt of its orbit, which is known at
once: a server hands w out again. A satellite without the power for one epoch sits out, and has no
weight. `wait` as a number is ours in all methods: it closes an epoch with those that are in.
"""

from abc import ABC
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from fedorbit.fleet import Fleet, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import State
from fedorbit.methods.global_model import GlobalModel, advance, at_begin, orbit_of

Ints = NDArray[np.int64]


def _check_wait(value: Any) -> Any:
    """Refuse other values with one sentence, not with one for each kind of value."""
    if value != "all" and (type(value) is not int or value < 1):
        raise ValueError(f'must be "all" or a whole number of rounds from 1 on, got {value!r}')
    return value


Wait = Annotated[Literal["all"] | int, BeforeValidator(_check_wait)]


class SynchronousEpochs(GlobalModel, ABC):
    """A method whose servers wait for all orbits, or for a number of rounds."""

    wait: Wait = Field(
        "all", description="an epoch ends when all orbits are in, or after so many rounds"
    )

    def start(self, fleet: Fleet) -> State:
        """The first epoch begins, and no orbit takes part yet."""
        return {
            **super().start(fleet),
            "began": np.array(0),
            "attempt": np.zeros(fleet.orbits, dtype=np.int64),
            "crew": np.zeros(fleet.satellites, dtype=np.bool_),
            "is_in": np.zeros(fleet.satellites, dtype=np.bool_),
            "total": np.zeros(fleet.layout.size),
            "mass": np.array(0),
        }

    def opened(self, state: State, now: Now) -> State:
        """Return a copy for this slot; attempts of orbits that have lost a satellite are over."""
        after = at_begin(state, now)
        lost = after["crew"] & ~after["is_in"]
        lost[now.satellites] = False
        self.end_attempts(after, now, np.unique(now.fleet.orbit_of_satellite[lost]))
        return after

    def end_attempts(self, state: State, now: Now, orbits: Ints) -> None:
        """End the attempts of orbits, so that nothing of them counts any more."""
        state["attempt"][orbits] += 1
        state["crew"][np.isin(now.fleet.orbit_of_satellite, orbits)] = False

    def begins(self, state: State, now: Now, orbit: int) -> bool:
        """Begin an attempt of an orbit if it has satellites to train, and none is under way."""
        mine = now.fleet.orbit_of_satellite == orbit
        crew = mine & outstanding(state, now)
        if not crew.any() or (mine & state["crew"] & ~state["is_in"]).any():
            return False
        state["attempt"][orbit] += 1
        state["crew"][mine] = crew[mine]
        return True

    def is_idle(self, state: State, now: Now, orbit: int) -> bool:
        """Return whether an orbit has nothing to train, and lacks the newest version."""
        is_behind = state["received_version"][orbit] < state["version"]
        return bool(is_behind and not now.orbits.samples[orbit])

    def is_current(self, state: State, now: Now, satellite: int, attempt: Any) -> bool:
        """Return whether something belongs to the attempt of a satellite that takes part in it."""
        same = attempt == state["attempt"][orbit_of(now, satellite)]
        return bool(same and state["crew"][satellite] and not state["is_in"][satellite])

    def hand_out(self, state: State, now: Now, server: int, satellite: int) -> None:
        """Send w to a satellite in view, for the attempt of its orbit."""
        attempt, version = state["attempt"][orbit_of(now, satellite)], int(state["version"])
        w = state["global"]
        now.send(server, satellite, w, wait=True, version=version, attempt=int(attempt))

    def bring_in(self, state: State, model: Vector, samples: int, satellites: Ints) -> None:
        """Add the mean of satellites to what servers have of this epoch."""
        state["total"] += float(samples) * model
        state["mass"] += samples
        state["is_in"][satellites] = True

    def close(self, state: State, now: Now) -> None:
        """End the epoch if all are in, or if it is over: w = sum n_l w_l / n of those that are."""
        timely = self.wait == "all" or now.t - state["began"] < self.wait
        if outstanding(state, now).any() and (timely or not state["mass"]):
            return
        if state["mass"]:
            advance(state, now, (state["total"] / state["mass"]).astype(np.float32))
        state["began"][...] = now.t
        state["total"][:], state["mass"][...], state["is_in"][:] = 0.0, 0, False
        self.end_attempts(state, now, np.arange(now.fleet.orbits))


def outstanding(state: State, now: Now) -> NDArray[np.bool_]:
    """Satellites with samples whose training of this epoch no server has."""
    return np.asarray((now.samples > 0) & ~state["is_in"])
