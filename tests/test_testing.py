"""The conformance suite itself: it must catch methods that learn what they cannot know."""

import numpy as np
import pytest

from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import State
from fedorbit.methods.fedavg import FedAvg, train_orbit
from fedorbit.methods.fleet import Fleet
from fedorbit.testing import MethodConformance


class UsesTheGroundsModel(FedAvg):
    """Infers with the newest global model wherever an orbit is."""

    def models(self, state: State) -> Vector:
        return np.tile(state["global"], (len(state["received"]), 1))


class StartsDarkOrbitsFromTheGround(FedAvg):
    """Trains orbits out of view from a global model that was never sent to them."""

    def round(self, state: State, t: int, fleet: Fleet) -> State:
        after = super().round(state, t, fleet)
        dark = set(fleet.present(t)) - set(fleet.visible(t))
        programs = {orbit: train_orbit(fleet, orbit, t, state["global"]) for orbit in sorted(dark)}
        received = after["received"].copy()
        for orbit, model in fleet.run(programs).items():
            received[orbit] = model
        return {**after, "received": received}


@pytest.mark.parametrize("cheat", [UsesTheGroundsModel(), StartsDarkOrbitsFromTheGround()])
def test_news_from_the_ground_without_a_link_are_caught(cheat: FedAvg) -> None:
    suite = MethodConformance()
    suite.method = cheat
    # It books no transfer, and what it tells never comes from an orbit that was not seen.
    suite.test_causal_links_are_respected()
    suite.test_nothing_is_learned_from_an_orbit_never_seen()
    with pytest.raises(AssertionError, match="orbits out of view learn what orbit 0 does"):
        suite.test_nothing_reaches_an_orbit_out_of_view()


def test_honest_methods_pass() -> None:
    suite = MethodConformance()
    suite.method = FedAvg()
    suite.test_nothing_reaches_an_orbit_out_of_view()
