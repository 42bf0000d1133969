"""Aggregations of orbits that take longer than a slot.

An orbit whose satellites have links only at times begins a *cycle* in one slot and ends it in
another. Every satellite trains as soon as it has the model that it starts from, then sends the
result to all others of its orbit; the cycle ends when the last message has arrived. With several
exchanges (intra-orbit rounds) one follows the other. What is trained depends on nothing later, so
it is computed as the cycle begins, and handed over when the cycle has ended: until then the result
is under way and part of a checkpoint, and the orbit begins no other. It still holds the model that
it had before, and may exchange models with the ground.

A satellite that is lost before the end takes the cycle with it: its messages never arrive.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedorbit.activity import Activity
from fedorbit.errors import LinkError, ModelError
from fedorbit.fleet.keeping import Arrays, Keeper, Shelf
from fedorbit.fleet.ledger import BYTES_PER_PARAMETER
from fedorbit.fleet.notes import Notes
from fedorbit.fleet.roster import Ints
from fedorbit.fleet.routes import Routes
from fedorbit.hardware import Floats

RECEIVED = "orbit:received_s"
"""Name of the array of a checkpoint."""


@dataclass
class Exchange:
    """One exchange among the satellites of an orbit."""

    training_s: dict[int, float] = field(default_factory=dict)
    """Satellites that send, and how long each trains before."""
    values: int = 0
    """Length of what each of them sends."""


@dataclass
class Cycle:
    """Programs of one orbit: exchanges by number, in their order."""

    exchanges: dict[int, Exchange] = field(default_factory=dict)

    def add(self, number: int, training_s: Mapping[int, float], values: int) -> None:
        """Add what satellites send; programs side by side send with the same numbers at once."""
        exchange = self.exchanges.setdefault(number, Exchange())
        for satellite, seconds in training_s.items():
            exchange.training_s[satellite] = max(
                seconds, exchange.training_s.get(satellite, seconds)
            )
        exchange.values += values

    def add_to_last(self, satellites: Sequence[int], values: int) -> None:
        """Add what the senders of the last exchange send with it; all satellites without one."""
        number = max(self.exchanges, default=0)
        last = self.exchanges.get(number, Exchange())
        self.add(number, last.training_s or dict.fromkeys(satellites, 0.0), values)


@dataclass(frozen=True, eq=False)
class Aggregation:
    """A cycle under way, and its result."""

    orbit: int
    purpose: int
    begun: int
    """Slot in which it was begun."""
    end_s: float
    """Moment at which it ends, in seconds since the run's start; infinite if never."""
    members: tuple[int, ...]
    """Satellites that take part."""
    samples: int
    """Training samples of those that train."""
    upload: bool
    """True if it is handed over only in contact with the ground."""
    results: dict[int, Any]
    """Values that the orbit's programs returned, by their keys."""


class Aggregations:
    """Cycles under way."""

    def __init__(
        self,
        routes: Routes,
        activity: Activity,
        orbit_of_satellite: Ints,
        slot_s: float,
        model_bytes: int,
        notes: Notes,
    ) -> None:
        self.routes = routes
        self._orbit_of_satellite, self._model_bytes = orbit_of_satellite, model_bytes
        self._notes = notes
        self._activity, self._slot_s = activity, slot_s
        self._under_way: list[Aggregation] = []
        self._received_s: Floats = np.zeros(len(orbit_of_satellite))
        """Time at which each satellite has all that the ground has sent to its orbit so far."""
        self._keeper = Keeper()
        self._running: dict[int, Cycle] = {}
        self._slot = -1
        self.handed: dict[int, Aggregation] = {}
        """Cycles that were handed over in this slot, by orbit."""

    # --- Moving ---------------------------------------------------------------------------------

    def download(self, t: int, members: Sequence[int], values: int) -> None:
        """Send something from the ground to all satellites of an orbit, from slot t on."""
        size_bytes = BYTES_PER_PARAMETER * values
        arrival_s = self.routes.carry(self.routes.ground, t * self._slot_s, members, size_bytes)
        self._received_s[members] = arrival_s  # what was sent before has arrived by then

    def upload(self, t: int, orbit: int, members: Sequence[int], values: int) -> None:
        """Send what an orbit holds from one of its satellites to the ground."""
        holders, since_s = self._held(t, orbit, members)
        size_bytes = BYTES_PER_PARAMETER * values
        self.routes.carry(holders, since_s, self.routes.ground[:1], size_bytes)

    def reaches_ground(self, t: int, orbit: int, members: Sequence[int]) -> bool:
        """Return whether what an orbit holds gets to the ground in slot t, in which it can be met.

        What all of its satellites hold as the slot begins does.
        """
        holders, since_s = self._held(t, orbit, members)
        if (since_s <= t * self._slot_s).all():
            return True
        arrival_s = self.routes.arrival_s(holders, since_s, self.routes.ground[:1])
        return bool((arrival_s < (t + 1) * self._slot_s).any())

    def _held(self, t: int, orbit: int, members: Sequence[int]) -> tuple[Sequence[int], Floats]:
        """Return the satellites that hold an orbit's model, and each one's moment since when.

        The result of a cycle is held by those that took part in it.
        """
        holders = self.handed[orbit].members if orbit in self.handed else members
        return holders, np.maximum(self._received_s[list(holders)], self._since_s(t, orbit))

    # --- Cycles ---------------------------------------------------------------------------------

    def is_busy(self, orbit: int) -> bool:
        """Return whether an orbit has a cycle under way, or a result that was not handed over."""
        return any(one.orbit == orbit for one in self._under_way)

    def _since_s(self, t: int, orbit: int) -> float:
        """Moment of slot t since which an orbit has what it has: its begin, or a cycle's end."""
        begin_s = t * self._slot_s
        return max(begin_s, self.handed[orbit].end_s) if orbit in self.handed else begin_s

    @contextmanager
    def running(self, orbits: Iterable[int]) -> Iterator[dict[int, Cycle]]:
        """Note what the programs of some orbits do, while they run."""
        self._running = {orbit: Cycle() for orbit in orbits}
        try:
            yield self._running
        finally:
            self._running = {}

    def cycle(self, t: int, orbit: int) -> Cycle:
        """Return the cycle that an orbit's programs are in; refuse one that is in none."""
        if orbit not in self._running:
            raise LinkError(
                f"orbit {orbit} cannot aggregate within round {t}: its satellites have links at "
                "times only; run its program with now.orbits.run, not with now.run"
            )
        return self._running[orbit]

    def settle(self, t: int) -> None:
        """Begin slot t: drop cycles that have lost what they need.

        That is a satellite before their end, and all of them before a result is handed over.
        Satellites that join an orbit receive what its others hold.
        """
        if t != self._slot:
            self._slot, self.handed = t, {}
            self._receive_joined(t)
        active, begin_s = self._activity.during(t), t * self._slot_s

        def is_alive(one: Aggregation) -> bool:
            here = active[list(one.members)]
            return bool(here.any() if one.end_s <= begin_s else here.all())

        self._under_way = [one for one in self._under_way if is_alive(one)]

    def _receive_joined(self, t: int) -> None:
        """Send the model of an orbit to satellites that have joined it; one alone has its own."""
        active = self._activity.during(t)
        joined = active & ~self._activity.during(t - 1) if t else np.zeros_like(active)
        for orbit in np.unique(self._orbit_of_satellite[joined]).tolist():
            mine = self._orbit_of_satellite == orbit
            holders = np.flatnonzero(mine & active & ~joined).tolist()
            new = np.flatnonzero(mine & joined).tolist()
            self._received_s[new] = t * self._slot_s
            if holders:
                since_s = np.maximum(self._received_s[holders], t * self._slot_s)
                self._received_s[new] = self.routes.carry(holders, since_s, new, self._model_bytes)

    def begin(
        self,
        t: int,
        orbit: int,
        members: Sequence[int],
        cycle: Cycle,
        results: Mapping[int, Any],
        *,
        samples: int,
        upload: bool,
        purpose: int,
    ) -> None:
        """Send what the programs of an orbit exchange, and keep what they returned."""
        end_s = self._end_s(self._since_s(t, orbit), members, cycle)
        kept = {key: self._kept(result) for key, result in results.items()}
        self._under_way.append(
            Aggregation(orbit, purpose, t, end_s, tuple(members), samples, upload, kept)
        )

    def _end_s(self, begin_s: float, members: Sequence[int], cycle: Cycle) -> float:
        """Moment at which all satellites have the results of all, after the last exchange."""
        if not cycle.exchanges:
            return begin_s
        ready_s = np.maximum(self._received_s[members], begin_s)
        for _, exchange in sorted(cycle.exchanges.items()):
            trained_s = ready_s + [exchange.training_s.get(k, 0.0) for k in members]
            ready_s = trained_s.copy()
            size_bytes = BYTES_PER_PARAMETER * exchange.values
            for satellite in sorted(exchange.training_s):
                start_s = float(trained_s[members.index(satellite)])
                arrival_s = self.routes.carry([satellite], start_s, members, size_bytes)
                ready_s = np.maximum(ready_s, arrival_s)
        return float(ready_s.max())

    def hand_over(
        self, t: int, purpose: int, in_contact: Callable[[int], bool]
    ) -> list[Aggregation]:
        """Take what has ended before slot t does, in the order of orbits.

        What goes to the ground first is taken if it gets there in this slot.
        """

        def is_due(one: Aggregation) -> bool:
            if one.purpose != purpose or one.end_s >= (t + 1) * self._slot_s:
                return False
            return not one.upload or (in_contact(one.orbit) and self._gets_down(t, one))

        due = [one for one in self._under_way if is_due(one)]
        self._under_way = [one for one in self._under_way if one not in due]
        self.handed |= {one.orbit: one for one in due}
        active = self._activity.during(t)
        for one in due:
            mates = np.flatnonzero(active & (self._orbit_of_satellite == one.orbit)).tolist()
            new = [k for k in mates if k not in one.members]
            if new:  # they joined while it was under way
                size = self._model_bytes
                self._received_s[new] = self.routes.carry(one.members, one.end_s, new, size)
            self._notes.add({"aggregation_s": max(one.end_s - one.begun * self._slot_s, 0.0)})
        return sorted(due, key=lambda one: one.orbit)

    def _gets_down(self, t: int, one: Aggregation) -> bool:
        """Return whether the result of a cycle can be on the ground in slot t."""
        since_s = max(one.end_s, t * self._slot_s)
        arrival_s = self.routes.arrival_s(one.members, since_s, self.routes.ground[:1])
        return bool((arrival_s < (t + 1) * self._slot_s).any())

    def _kept(self, result: Any) -> Any:
        """Return a result as a checkpoint would give it back."""
        if isinstance(result, tuple):
            return tuple(self._kept(part) for part in result)
        array = np.asarray(result)
        if array.dtype.kind not in "fiub":
            raise ModelError(
                f"a program of an orbit returned {result!r}: what is under way must be vectors, "
                "numbers, or tuples of them"
            )
        return self._keeper.keep(array) if array.ndim else array.item()

    # --- Checkpoints ----------------------------------------------------------------------------

    def saved(self) -> tuple[list[dict[str, Any]], Arrays]:
        """Return cycles under way for a checkpoint: plain values, and arrays by name."""
        shelf = Shelf("orbit")
        cycles = [
            {
                **vars(one),
                "end_s": one.end_s if math.isfinite(one.end_s) else None,  # as JSON has it
                "members": list(one.members),
                "results": [
                    {"key": key, "result": _shelved(result, shelf)}
                    for key, result in one.results.items()
                ],
            }
            for one in self._under_way
        ]
        return cycles, {**shelf.arrays, RECEIVED: self._received_s.copy()}

    def restore(self, cycles: list[dict[str, Any]], arrays: Arrays) -> None:
        """Continue with the cycles that a checkpoint kept."""
        self._received_s = arrays[RECEIVED].copy()
        self._under_way, self._slot, self.handed = [], -1, {}
        for cycle in cycles:
            changes = {
                "end_s": math.inf if cycle["end_s"] is None else cycle["end_s"],
                "members": tuple(cycle["members"]),
                "results": {
                    row["key"]: self._kept(_unshelved(row["result"], arrays))
                    for row in cycle["results"]
                },
            }
            self._under_way.append(Aggregation(**{**cycle, **changes}))


def _shelved(result: Any, shelf: Shelf) -> Any:
    """Name the arrays of a result; a tuple becomes a list, and a number an array without axes."""
    if isinstance(result, tuple):
        return [_shelved(part, shelf) for part in result]
    return shelf.put(np.asarray(result))


def _unshelved(result: Any, arrays: Arrays) -> Any:
    if isinstance(result, list):
        return tuple(_unshelved(part, arrays) for part in result)
    return arrays[result]
