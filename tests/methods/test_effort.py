"""Baselines that spend what FedOrbit spends."""

import numpy as np
import pytest

from fedorbit.methods import Method, make_method
from fedorbit.methods.ditto import Ditto
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.methods.fedprox import FedProx
from fedorbit.methods.local import Local
from fedorbit.testing import EVENTS, PATTERN, assert_same, fleet_of, play, small_world

# E_base = 1 and PATTERN: E_l = floor(min(10, 1 + 0.7 tau)) twice in view, 2 epochs once out of it.
FEDORBITS_EPOCHS = [
    [2, 2, 2],
    [2, 2, 2],
    [2, 4, 2],  # orbit 0 after 1 dark round: floor 1.7, orbit 1 after 2: floor 2.4
    [2, 2, 2],
    [2, 2, 6],  # orbit 1 after 1, orbit 2 after 4: floor 3.8
    [4, 2, 2],  # orbit 0 after 2
]


def spent(method: Method, **changes) -> tuple[list[list[int]], int]:
    """Epochs per round and orbit, and samples trained in all."""
    with fleet_of(small_world(**changes)) as fleet:
        state, epochs = method.start(fleet), []
        for t in range(6):
            state = method.round(state, fleet.at(t))
            epochs.append(fleet.ledger.epochs)
            fleet.ledger.start_record()
        return epochs, fleet.ledger.samples_trained


@pytest.mark.parametrize(
    "baseline", [FedAvg(effort="always"), FedProx(effort="always"), Local(effort="always")]
)
def test_always_spends_exactly_what_fedorbit_does(baseline: Method) -> None:
    epochs, samples = spent(baseline)
    assert epochs == FEDORBITS_EPOCHS
    assert (epochs, samples) == spent(FedOrbit())
    assert spent(baseline, events=EVENTS) == spent(FedOrbit(), events=EVENTS)


def test_visible_spends_what_fedorbit_does_in_view() -> None:
    epochs, samples = spent(FedAvg(effort="visible"))
    assert epochs == np.where(PATTERN, FEDORBITS_EPOCHS, 0).tolist()
    assert (epochs, samples) == spent(FedOrbit(continuous=False))


def test_ditto_spends_it_on_each_of_its_two_models() -> None:
    epochs, samples = spent(Ditto(effort="always"))
    assert epochs == (2 * np.array(FEDORBITS_EPOCHS)).tolist()
    assert samples == 2 * spent(FedOrbit())[1]


def test_with_causal_links_only_visible_orbits_can_take_part() -> None:
    world = small_world(links="causal")
    for one, other in zip(
        play(FedAvg(effort="always"), world), play(FedAvg(effort="visible"), world), strict=True
    ):
        assert_same(one, other)
    assert spent(Local(effort="always"), links="causal")[0] == FEDORBITS_EPOCHS  # needs no link


def test_base_is_the_default_and_spends_e_base_in_view() -> None:
    assert FedAvg() == FedAvg(effort="base") == make_method("fedavg", {})
    assert spent(FedAvg())[0] == PATTERN.astype(int).tolist()


def test_the_rate_is_not_dampened() -> None:
    """One visible round after three dark ones, worked with the plain rate."""
    visible = np.array([[0, 0, 0]] * 3 + [[1, 0, 0]], dtype=bool)
    world = small_world(visible)
    with fleet_of(world) as fleet:
        method = FedAvg(effort="visible")
        state = method.start(fleet)
        rates, now = [], fleet.at(3)
        original = now.orbits.jobs
        now.orbits.jobs = lambda *a, **k: (
            rates.append((k["epochs"], k["rate"])) or original(*a, **k)
        )
        method.round(state, now)
    assert rates == [(3, 0.01 * 0.998**3)] * 2  # floor(1 + 0.7 x 3) = 3, in two intra-orbit rounds
