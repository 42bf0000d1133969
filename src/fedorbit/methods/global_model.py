"""One global model on servers that act as one, and what orbits have received of it.

What one of the linked servers has, all have at once and at no cost. Servers without a link to the
first one only relay. State of all methods with such a model, beside their own:

    global, version               w, and v: the number of aggregations behind it
    received, received_version    of each orbit: the newest w that any of its satellites has
                                  received, which the orbit uses, and its v; w(0) before that
"""

from abc import ABC
from typing import Any, ClassVar, TypeVar

import numpy as np

from fedorbit.fleet import Fleet, Mail, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Family, Method, State

Number = TypeVar("Number", bound=Any)


class GlobalModel(Method, ABC):
    """A method whose servers have one model for all."""

    family: ClassVar[Family] = "space"

    def start(self, fleet: Fleet) -> State:
        """All orbits have the first model."""
        w = fleet.initial_model()
        return {
            "global": w,
            "version": np.array(0),
            "received": np.tile(w, (fleet.orbits, 1)),
            "received_version": np.zeros(fleet.orbits, dtype=np.int64),
        }

    def models(self, state: State) -> Vector:
        """Every orbit uses the newest model that any of its satellites has received."""
        return state["received"]

    def facts(self, state: State, now: Now) -> dict[str, Any]:
        """Report how many aggregations there were."""
        return {"aggregations": int(state["version"])}


def at_begin(state: State, now: Now, *uncopied: str) -> State:
    """Return a copy for this slot, but for arrays that are named.

    Orbits that are launched have the newest model on board: that needs no link.
    """
    after = {name: a if name in uncopied else a.copy() for name, a in state.items()}
    launched = now.orbits.launched
    after["received"][launched] = after["global"]
    after["received_version"][launched] = after["version"]
    return after


def take(state: State, now: Now, mail: Mail) -> None:
    """Make a model that has arrived its orbit's, if it is newer than the orbit's own.

    Of a model that was sent in part, all else is 0.
    """
    orbit, version = orbit_of(now, mail.target), mail.about["version"]
    if version > state["received_version"][orbit]:
        state["received"][orbit] = mail.into(np.zeros_like(state["global"]))
        state["received_version"][orbit] = version


def advance(state: State, now: Now, w: Vector) -> None:
    """Make a model the next version."""
    state["global"] = w
    state["version"] += 1
    now.note(version=int(state["version"]))


def discount(staleness: Number, alpha: float) -> Number:
    """Return c(s) = (1 + s)^-alpha, by which an update counts less that is s versions behind."""
    return (1.0 + staleness) ** -alpha


def orbit_of(now: Now, satellite: int) -> int:
    """Return the orbit of a satellite."""
    return int(now.fleet.orbit_of_satellite[satellite])
