"""What a method is: three functions over a state of named arrays.

`start(fleet)` makes the state, `round(state, t, fleet)` returns the next one, and `models(state)`
says which model each orbit would use now. A method owns no loop over rounds, batches or files, and
keeps nothing beside its state, so that any state can be saved and resumed.

A method's fields are its parameters: they are checked, listed by `fedorbit methods`, and set in
the configuration under `[methods.NAME]`.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from fedorbit.learning.parameters import Vector
from fedorbit.methods.fleet import Fleet

State = dict[str, NDArray[Any]]
METHOD_CONFIG = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class Method(BaseModel, ABC):
    """Base class of all methods, also of those in a user's own file."""

    model_config = METHOD_CONFIG

    models_trained: ClassVar[int] = 1
    """Models that a satellite trains in a round; who has no time or power for an epoch of each,
    where these are limited, sits the round out."""

    @abstractmethod
    def start(self, fleet: Fleet) -> State:
        """Return the state before the first round."""

    @abstractmethod
    def round(self, state: State, t: int, fleet: Fleet) -> State:
        """Return the state after round t; the given state stays as it is."""

    @abstractmethod
    def models(self, state: State) -> Vector:
        """Return each orbit's inference model, `[orbit, P]`."""

    def facts(self, state: State, t: int, fleet: Fleet) -> dict[str, Any]:
        """Return what the summary should tell after the last round t, such as beta."""
        return {}


def with_launched(state: State, t: int, fleet: Fleet, *models: str) -> State:
    """Load the ground station's model into orbits that are launched in round t.

    That happens before the launch and needs no link. `models` name the arrays `[orbit, P]`.
    """
    launched = fleet.launched(t)
    if not launched:
        return state
    loaded = {name: state[name].copy() for name in models}
    for array in loaded.values():
        array[launched] = state["global"]
    return {**state, **loaded}


def weighted_mean(models: list[Vector], weights: NDArray[Any], otherwise: Vector) -> Vector:
    """Average models by weights; `otherwise` where all weights are zero.

    Summed in double precision and in the given order, so that the result is the same everywhere.
    """
    total = float(np.sum(weights))
    if not models or total <= 0.0:
        return otherwise
    mean = np.zeros(models[0].shape)
    for model, weight in zip(models, weights, strict=True):
        mean += (float(weight) / total) * model
    return mean.astype(np.float32)
