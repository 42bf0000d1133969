"""Versions of a global model: how they reach satellites, and servers that wait for all orbits.

Servers that are linked are one: what one of them has, all have at once. A satellite talks to a
server in a contact of its own. Between satellites of an orbit messages take the earliest route,
over assumed links or over those that there are.

    state                here
    version, began       v, aggregations so far; slot in which the last one was
    received             [orbit, P]: newest global model that any satellite of the orbit has
    received_version     [orbit]: its version; -1 as long as none was received

An *epoch* of a synchronous method lasts from one aggregation to the next. An orbit takes part in
it by an *attempt*: a server hands w to the orbit, its crew trains, and results come back. Whatever
belongs to an older attempt is dropped.

    attempt              [orbit]: number of its last attempt
    crew                 [satellite]: whether it takes part in it
    is_in                [satellite]: whether a server has its training of this epoch
    total, mass          of the models that servers have: their sum, weighted by samples; its weight

A satellite that is lost before its model is in ends the attempt of its orbit: a server hands w out
again. A satellite without the power for one epoch sits out, and has no weight.
"""

from abc import ABC
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from fedorbit.fleet import Fleet, Mail, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Method, State

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


# --- Versions -------------------------------------------------------------------------------------


def start_versions(fleet: Fleet) -> State:
    """Return the state in which servers have version 0, and all orbits the first model."""
    w = fleet.initial_model()
    return {
        "global": w,
        "version": np.array(0),
        "began": np.array(0),
        "received": np.tile(w, (fleet.orbits, 1)),
        "received_version": np.full(fleet.orbits, -1),
    }


def at_begin(state: State, now: Now) -> State:
    """Return a copy in which orbits that are launched have the newest model on board."""
    after = {name: array.copy() for name, array in state.items()}
    launched = now.orbits.launched
    after["received"][launched] = after["global"]
    after["received_version"][launched] = after["version"]
    return after


def take(state: State, now: Now, mail: Mail) -> None:
    """Make a model that has arrived its orbit's, if it is newer than the orbit's own."""
    orbit, version = orbit_of(now, mail.target), mail.about["version"]
    if version > state["received_version"][orbit]:
        state["received"][orbit], state["received_version"][orbit] = mail.payload, version


def advance(state: State, now: Now, w: Vector) -> None:
    """Make a model the next version."""
    state["global"] = w
    state["version"] += 1
    now.note(version=int(state["version"]))


# --- Nodes ----------------------------------------------------------------------------------------


def orbit_of(now: Now, satellite: int) -> int:
    """Return the orbit of a satellite."""
    return int(now.fleet.orbit_of_satellite[satellite])


def in_view(now: Now) -> dict[int, int]:
    """Return satellites that a server can send a model to from this slot on, with that server.

    By the begin of their contacts. A contact without the time for a whole model does not count.
    """
    end_s, found = (now.t + 1) * now.fleet.round_s, dict[int, int]()
    for satellite, server, *_ in now.contacts():
        if satellite not in found and server in now.fleet.topology.ground:
            window = now.window(satellite, server, now.transfer_s(server, satellite))
            if window is not None and window.begin_s < end_s:
                found[satellite] = server
    return found


def forward(now: Now, source: int, target: int, vector: Vector, **about: Any) -> bool:
    """Send by the earliest route; return whether there is one."""
    ways = now.ways(source)
    if not np.isfinite(ways.arrival_s[target]):
        return False
    return (
        now.send(source, target, vector, route=ways.through(target), wait=True, **about) is not None
    )


def along_orbit(now: Now, source: int, mate: int, vector: Vector, **about: Any) -> bool:
    """Send to a satellite of the same orbit, unless the way leads through a server.

    What a server would have to relay it can send itself.
    """
    relays = now.ways(source).through(mate)
    return not set(relays) & set(now.servers) and forward(now, source, mate, vector, **about)


def to_servers(now: Now, satellite: int, vector: Vector, **about: Any) -> bool:
    """Send to the servers by the earliest route: in view, or by a satellite that will be."""
    return forward(now, satellite, now.fleet.topology.ground[0], vector, **about)


def deliveries(now: Now) -> Iterator[Mail]:
    """Yield what arrives at satellites in this slot, with what is sent in answer to it."""
    while mails := [mail for satellite in now.satellites for mail in now.inbox(satellite)]:
        yield from mails


def arrivals(now: Now) -> Iterator[Mail]:
    """Yield what has arrived at servers."""
    for server in now.servers:
        yield from now.inbox(server)


# --- Epochs ---------------------------------------------------------------------------------------


def _check_wait(value: Any) -> Any:
    """Refuse other values with one sentence, not with one for each kind of value."""
    if value != "all" and (type(value) is not int or value < 1):
        raise ValueError(f'must be "all" or a whole number of rounds from 1 on, got {value!r}')
    return value


Wait = Annotated[Literal["all"] | int, BeforeValidator(_check_wait)]


class SynchronousEpochs(Method, ABC):
    """A method whose servers wait for all orbits, or for a number of rounds."""

    wait: Wait = Field(
        "all", description="an epoch ends when all orbits are in, or after so many rounds"
    )

    def start(self, fleet: Fleet) -> State:
        """The first epoch begins, and no orbit has version 0."""
        return {
            **start_versions(fleet),
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

    def is_current(self, state: State, now: Now, satellite: int, attempt: Any) -> bool:
        """Return whether something belongs to the attempt of a satellite that takes part in it."""
        same = attempt == state["attempt"][orbit_of(now, satellite)]
        return bool(same and state["crew"][satellite] and not state["is_in"][satellite])

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

    def models(self, state: State) -> Vector:
        """Every orbit uses the newest global model that any of its satellites has received."""
        return state["received"]


def outstanding(state: State, now: Now) -> Flags:
    """Satellites with samples whose training of this epoch no server has."""
    return np.asarray((now.samples > 0) & ~state["is_in"])
