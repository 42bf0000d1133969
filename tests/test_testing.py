"""The conformance suite itself: it must catch methods that learn what they cannot know."""

import numpy as np
import pytest

from fedorbit.fleet import Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import State
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.steps import train_orbit
from fedorbit.testing import MethodConformance


class UsesTheGroundsModel(FedAvg):
    """Infers with the newest global model wherever an orbit is."""

    def models(self, state: State) -> Vector:
        return np.tile(state["global"], (len(state["received"]), 1))


class StartsDarkOrbitsFromTheGround(FedAvg):
    """Trains orbits out of view from a global model that was never sent to them."""

    def round(self, state: State, now: Now) -> State:
        after = super().round(state, now)
        dark = set(now.orbits.present) - set(now.orbits.visible)
        programs = {orbit: train_orbit(now, orbit, state["global"]) for orbit in sorted(dark)}
        received = after["received"].copy()
        for orbit, model in now.run(programs).items():
            received[orbit] = model
        return {**after, "received": received}


@pytest.mark.parametrize("cheat", [UsesTheGroundsModel(), StartsDarkOrbitsFromTheGround()])
def test_news_from_the_ground_without_a_link_are_caught(cheat: FedAvg) -> None:
    suite = MethodConformance()
    suite.method = cheat
    suite.test_causal_links_are_respected()  # it books no transfer
    with pytest.raises(AssertionError, match=r"models of the orbits .* know what satellite"):
        suite.test_news_travel_over_links_only()


def test_honest_methods_pass() -> None:
    suite = MethodConformance()
    suite.method = FedAvg()
    suite.test_news_travel_over_links_only()
