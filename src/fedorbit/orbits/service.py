"""Rounds that serve an orbit when links have rates: in view, and long enough for a model.

Visibility is that at the begin of a round; how long a contact then lasts is in the contact plan.
A round serves an orbit if the orbit is in view and the seconds that any station sees any
of its satellites within the round suffice to send one model up and one down. The satellites of an
orbit take over from each other; an exchange does not continue in the next round.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.hardware import transfer_s
from fedorbit.orbits.earth import Floats
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.visibility import Schedule


@dataclass(frozen=True)
class LinkRates:
    """Rates in megabits per second; None: a transfer takes no time."""

    to_ground_mbps: float | None = None
    """Rate from an orbit to the ground, as in `to_ground_bytes`."""
    from_ground_mbps: float | None = None
    """Rate from the ground to an orbit."""

    def exchange_s(self, model_bytes: int) -> float:
        """Seconds to send one model to the ground and one back."""
        to_ground_s = transfer_s(model_bytes, self.to_ground_mbps)
        return to_ground_s + transfer_s(model_bytes, self.from_ground_mbps)


@dataclass(frozen=True, eq=False)
class Service:
    """Rounds of a schedule that serve each orbit at given rates."""

    in_view: Schedule
    """Orbits in view, served or not."""
    contact_s: Floats
    """Seconds of contact `[round, orbit]`."""
    exchange_s: float
    """Seconds that a model takes up and down."""

    @property
    def schedule(self) -> Schedule:
        """The schedule of rounds that serve: in view, and in contact for long enough."""
        served = self.in_view.visible & (self.contact_s >= self.exchange_s)
        return replace(self.in_view, visible=served)

    @property
    def never_served(self) -> list[int]:
        """Orbits that are in view at times and for too short a time in every round."""
        unserved = self.in_view.visible.any(axis=0) & ~self.schedule.visible.any(axis=0)
        return [int(orbit) for orbit in np.flatnonzero(unserved)]

    @property
    def longest_contact_s(self) -> float:
        """The longest contact within one round in which its orbit is in view."""
        return float(np.where(self.in_view.visible, self.contact_s, 0.0).max(initial=0.0))

    def summary(self) -> dict[str, Any]:
        """Return how many rounds in view are long enough for a model, over the horizon."""
        return {
            "exchange_s": self.exchange_s,
            "longest_contact_s": self.longest_contact_s,
            "in_view_rounds": self.in_view.visible_rounds.tolist(),
            "served_rounds": self.schedule.visible_rounds.tolist(),
        }


def contact_seconds(
    plan: ContactPlan, orbit_of_satellite: NDArray[np.int64], rounds: int, round_s: float
) -> Floats:
    """Seconds in which any station sees any satellite of an orbit, `[round, orbit]`.

    Contacts at the same time count once.
    """
    seconds = np.zeros((rounds, int(orbit_of_satellite[-1]) + 1))
    borders_s = np.arange(rounds + 1, dtype=np.float64) * round_s
    plan = plan.with_servers
    here = (plan.begin_s < borders_s[-1]) & (plan.end_s > borders_s[0])
    orbit_of_contact = orbit_of_satellite[plan.first]
    for orbit in np.unique(orbit_of_contact[here]):
        mine = here & (orbit_of_contact == orbit)
        covered_s = _covered_before(borders_s, plan.begin_s[mine], plan.end_s[mine])
        seconds[:, orbit] = np.diff(covered_s)
    return seconds


def _covered_before(times_s: Floats, rise_s: Floats, set_s: Floats) -> Floats:
    """Seconds before each time that lie in at least one of the intervals."""
    order = np.argsort(rise_s, kind="stable")
    rise_s, last_set_s = rise_s[order], np.maximum.accumulate(set_s[order])
    # An interval that begins after all before it have ended opens a new window.
    opens: NDArray[np.bool_] = np.append(True, rise_s[1:] > last_set_s[:-1])
    begin_s, end_s = rise_s[opens], last_set_s[np.append(np.flatnonzero(opens)[1:] - 1, -1)]
    ends_s = np.column_stack((begin_s, end_s)).ravel()
    covered_s = np.cumsum(np.diff(ends_s, prepend=ends_s[0]) * np.resize([0, 1], len(ends_s)))
    return np.asarray(np.interp(times_s, ends_s, covered_s))
