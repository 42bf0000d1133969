"""The contract of methods: three functions over a state of named arrays.

`start(fleet)` makes the state, `round(state, now)` returns the next one, and `models(state)`
returns the models in use: one for all, one per orbit, or one per satellite. A method owns no loop
over rounds, batches or files, and keeps nothing beside its state, so that any state can be saved
and resumed. Whatever moves or trains does so through `now`, one slot of the world.

A method's fields are its parameters: they are checked, listed by `fedorbit methods`, and set in
the configuration under `[methods.NAME]`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from fedorbit.fleet import ONE_MODEL, Fleet, Move, Needs, Now
from fedorbit.learning.parameters import Vector

State = dict[str, NDArray[Any]]
Serves = Literal["everyone", "orbit", "satellite"]
Family = Literal["global", "personalised", "space", "reference", "other"]
METHOD_CONFIG = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class Method(BaseModel, ABC):
    """Base class of all methods, also of those in a user's own file."""

    model_config = METHOD_CONFIG

    serves: ClassVar[Serves] = "orbit"
    """Nodes that `models` has a row for: one row for all, or one for each orbit or satellite."""

    label: ClassVar[str] = ""
    """Its name as papers write it; that of the class unless given."""
    family: ClassVar[Family] = "other"
    """Kind of method, by which tables are grouped: one global model, personalised models, a system
    made for space, a reference without federation, or none of these."""

    @abstractmethod
    def start(self, fleet: Fleet) -> State:
        """Return the state before the first round."""

    @abstractmethod
    def round(self, state: State, now: Now) -> State:
        """Return the state after this round; the given state stays as it is."""

    @abstractmethod
    def models(self, state: State) -> Vector:
        """Return the inference models, one row for each that `serves` names."""

    @property
    def needs(self) -> Needs:
        """Work that a satellite must be able to do in a round to be among its orbit's trainers.

        Where time or power on board is limited, others sit the round out.
        """
        return ONE_MODEL

    def offloading(self, fleet: Fleet) -> Sequence[Move]:
        """Return training samples that change satellites before the first round: here none.

        Must follow from the fleet alone. Test samples stay.
        """
        return ()

    def facts(self, state: State, now: Now) -> dict[str, Any]:
        """Return facts for the summary after the last round, such as beta."""
        return {}
