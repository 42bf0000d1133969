"""Centralised: all data in one place. Not in the paper; the bound of one model for all orbits.

    (1)  w <- LocalSGD of F from w, `epochs` epochs in every round

F is the mean loss over the samples of all active satellites, wherever they are. No links are used:
raw data are assumed to be available.
"""

from typing import ClassVar

from pydantic import Field

from fedorbit.fleet import Fleet, Needs, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Family, Method, Serves, State


class Centralised(Method):
    """One model on the data of all satellites."""

    family: ClassVar[Family] = "reference"

    serves: ClassVar[Serves] = "everyone"

    epochs: int = Field(1, ge=1, le=1000, description="epochs per round over all samples")

    @property
    def needs(self) -> Needs:
        """Nothing: it does not train on board."""
        return Needs(passes=0, exchanged=0)

    def start(self, fleet: Fleet) -> State:
        """One model."""
        return {"model": fleet.initial_model()}

    def round(self, state: State, now: Now) -> State:
        """Train on everything, if there is anything."""
        trained = now.train(now.pooled_jobs(state["model"], epochs=self.epochs))
        return {"model": trained[0].model} if trained else state

    def models(self, state: State) -> Vector:
        """The one model."""
        return state["model"][None]
