"""Effort of an orbit in a round: FedOrbit's rule, which other methods may use too.

Methods that train for different times are hard to compare. With `effort`, a baseline spends what
FedOrbit's default schedule would: the same epochs and intra-orbit rounds, in the same rounds. The
learning rate stays the baseline's own; dampening it is a mechanism of FedOrbit.
"""

from typing import Literal, NamedTuple

from pydantic import BaseModel, Field

from fedorbit.fleet import Now
from fedorbit.methods.base import METHOD_CONFIG, Method


class Work(NamedTuple):
    """Work of an orbit's satellites in one round."""

    epochs: int
    intra_rounds: int

    @classmethod
    def base(cls, now: Now) -> "Work":
        """E_base epochs in each of the baselines' intra-orbit rounds."""
        return cls(now.fleet.plan.epochs, now.fleet.plan.intra_rounds)


class EffortSchedule(BaseModel):
    """FedOrbit's schedule: catch up after an absence, train a little while out of view."""

    model_config = METHOD_CONFIG

    max_epochs: int = Field(10, ge=1, le=1000, description="E_max, cap of the catch-up")
    dark_epochs: int = Field(2, ge=0, le=1000, description="E_dark, epochs of orbits out of view")
    catch_up: float = Field(0.7, ge=0, le=100, description="s_e, epochs per round missed; 0: off")
    intra_rounds: int = Field(2, ge=1, le=100, description="R_intra, for visible orbits")

    def visible_epochs(self, base: int, tau: int) -> int:
        """E_l: more epochs after a longer absence, FedOrbit's (1)."""
        return int(min(self.max_epochs, base + self.catch_up * tau))

    def scheduled_work(self, orbit: int, now: Now) -> Work:
        """Return the work of an orbit in this round, in view or out of it."""
        if orbit not in now.orbits.visible:
            return Work(self.dark_epochs, 1)
        tau = int(now.orbits.dark_rounds()[orbit])
        return Work(self.visible_epochs(now.fleet.plan.epochs, tau), self.intra_rounds)


class MatchedEffort(Method):
    """A method that can be made to spend as much training as FedOrbit does by default."""

    effort: Literal["base", "visible", "always"] = Field(
        "base",
        description="base: E_base in view; visible: FedOrbit's epochs in view; "
        "always: FedOrbit's epochs in every round",
    )

    def participants(self, now: Now) -> list[int]:
        """Orbits that train and exchange models in this round."""
        return now.orbits.reachable if self.effort == "always" else now.orbits.visible

    def work(self, orbit: int, now: Now) -> Work:
        """Return the work in this round of an orbit that takes part."""
        if self.effort == "base":
            return Work.base(now)
        return EffortSchedule().scheduled_work(orbit, now)
