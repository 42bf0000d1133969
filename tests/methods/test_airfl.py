"""AirFL: who transmits when and to whom, by hand and against FedAvg."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedorbit.fleet import Fleet, Signal, Superposed
from fedorbit.fleet.network import Network
from fedorbit.learning.jobs import LocalJob, batch_order
from fedorbit.methods import State, weighted_mean
from fedorbit.methods.airfl import AirFL
from fedorbit.methods.visits import SENDING
from fedorbit.simulation.world import World
from fedorbit.testing import fleet_of, small_world, snapshots
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet

NO_NOISE = {"snr_db": 1000.0}
Transmission = tuple[float, int, dict[int, Signal]]


@pytest.fixture
def transmissions(monkeypatch: pytest.MonkeyPatch) -> list[Transmission]:
    """Moment, server and signals of all transmissions."""
    noted: list[Transmission] = []
    superpose: Callable[..., Superposed] = Network.superpose

    def noting(network: Network, t: int, server: int, signals: Any, **how: Any) -> Superposed:
        kept = {k: signal._replace(vector=signal.vector.copy()) for k, signal in signals.items()}
        noted.append((how["at_s"], server, kept))
        return superpose(network, t, server, signals, **how)

    monkeypatch.setattr(Network, "superpose", noting)
    return noted


def play_world(method: AirFL, world: World, rounds: int = 6) -> tuple[State, Fleet]:
    with fleet_of(world) as fleet:
        return play_on(fleet, method, rounds), fleet


def test_without_noise_and_staleness_it_is_fedavg_over_satellites() -> None:
    world = small_world(np.ones((4, 3), dtype=bool), links="causal")
    played = snapshots(AirFL(**NO_NOISE, alpha=0.0), world)
    n, training = np.array([len(x) for x in world.partition.train]), world.config.training
    w, trainer = world.initial_model, world.trainer()
    for t in range(3):  # received and begun in slot t, transmitted as the next begins
        rate = training.rate * training.rate_decay**t
        jobs = [LocalJob(k, w, training.epochs, rate, (t, 0, 0)) for k in range(6)]
        models = [trainer.train(job, batch_order(world.data, job, 0)).model for job in jobs]
        w = weighted_mean(models, n, otherwise=w)
        np.testing.assert_allclose(played[t + 2].state["global"], w, atol=1e-6)
        assert played[t + 2].world["ledger"]["to_ground_bytes"] == (t + 1) * 4 * len(w)


def test_one_satellite_without_noise_moves_the_model_by_its_update() -> None:
    with quadratic_fleet([1.0], [[4.0, -2.0]], rate=0.5) as fleet:
        np.testing.assert_allclose(play_on(fleet, AirFL(**NO_NOISE), 2)["global"], [2.0, -1.0])
    with quadratic_fleet([1.0], [[4.0, -2.0]], rate=0.5) as fleet:
        half = play_on(fleet, AirFL(**NO_NOISE, server_rate=0.5), 2)
        np.testing.assert_allclose(half["global"], [1.0, -0.5])


def test_noise_of_a_run_is_as_the_formula_says() -> None:
    """Two satellites of equal gain: sigma = d / (2 sqrt(SNR)); half of it with four times the SNR."""
    size, noise = 500, {}
    means = np.random.default_rng(0).normal(0.0, 1.0, (2, size))
    world = {"samples": [1, 1], "orbit_of": [0, 1], "rate": 0.5}
    for snr_db in (0.0, 20 * np.log10(2.0), 1000.0):
        found = []
        for seed in range(20):
            with quadratic_fleet([1.0, 1.0], means.tolist(), **world) as fleet:
                fleet.network._seed = seed
                found.append(play_on(fleet, AirFL(snr_db=snr_db, mu=0.0), 2)["global"])
        noise[snr_db] = np.array(found)
    once, fourfold, exact = noise.values()
    np.testing.assert_allclose(exact[0], 0.25 * means.sum(axis=0), rtol=1e-4, atol=1e-6)
    variance = (0.5 * means).var() / 4
    assert (once - exact).var() == pytest.approx(variance, rel=0.06)  # of 10,000 values
    assert abs((once - exact).mean()) < 5 * np.sqrt(variance / once.size)
    assert (fourfold - exact).var() == pytest.approx((once - exact).var() / 4, rel=1e-3)


def test_stale_updates_have_less_weight_and_those_left_out_grow_stale(
    transmissions: list[Transmission],
) -> None:
    """Satellite 1 trains from version 0 until slot 3; satellite 0 has moved w once by then."""
    seen = [[1, 1], [1, 0], [0, 0], [1, 1]]
    world = {"samples": [1, 1], "orbit_of": [0, 1], "visible": seen, "rate": 0.5}
    with quadratic_fleet([1.0, 1.0], [[4.0], [8.0]], **world) as fleet:
        state = play_on(fleet, AirFL(**NO_NOISE, alpha=1.0), 4)
    moments = [(at_s, sorted(signals)) for at_s, _, signals in transmissions]
    assert moments == [(1.0, [0]), (3.0, [0, 1])]
    # Slot 1: w = 2. Slot 3: +1 from 2 by satellite 0 and, half as heavy, +4 from 0 by satellite 1.
    np.testing.assert_allclose(state["global"], [2.0 + (1.0 + 0.5 * 4.0) / 1.5])
    assert {k: signal.weight for k, signal in transmissions[1][2].items()} == {0: 1.0, 1: 0.5}


def test_the_price_of_noise_decides_who_transmits() -> None:
    """Satellite 0 is ten times nearer. The other keeps its update, and has a further version."""
    rows = [(0, 6, 0.0, 1800.0), (2, 6, 0.0, 1800.0)]
    world = planned(*rows)
    plan = replace(world.active_plan, range_km=np.array([1000.0, 10_000.0]))
    world = replace(world, plan=plan, active_plan=plan)
    state, _ = play_world(AirFL(snr_db=0.0, mu=0.0), world, rounds=2)
    assert ((state["stage"] == SENDING).any(), int(state["version"])) == (False, 1)
    state, _ = play_world(AirFL(snr_db=0.0, mu=100.0), world, rounds=2)
    assert (state["stage"] == SENDING).tolist() == [False, False, True, False, False, False]
    assert state["update"][2].any()
    assert not state["update"][0].any()
    assert int(state["version"] - state["base"][2]) == 1
    assert int(state["version"] - state["base"][0]) == 0  # it has the new one already


def test_a_satellite_transmits_to_the_server_that_receives_it_best(
    transmissions: list[Transmission],
) -> None:
    """Both servers see satellite 0; results of the servers are combined by weight."""
    rows = [(0, 6, 0.0, 1800.0), (0, 7, 0.0, 1800.0), (2, 6, 0.0, 1800.0)]
    world = planned(*rows)
    plan = replace(world.active_plan, range_km=np.array([2000.0, 500.0, 1000.0]))
    assert plan.second.tolist() == [6, 7, 6]
    world = replace(world, plan=plan, active_plan=plan)
    state, fleet = play_world(AirFL(snr_db=10.0, alpha=0.0, mu=0.0), world, rounds=2)
    assert [(server, list(signals)) for _, server, signals in transmissions] == [(6, [2]), (7, [0])]
    [to_6, to_7] = [signals for _, _, signals in transmissions]
    assert to_7[0].snr == pytest.approx(40.0)
    assert to_6[2].snr == pytest.approx(10.0)
    state, fleet = play_world(AirFL(**NO_NOISE, alpha=0.0), world, rounds=2)
    n, updates = fleet.at(1).samples, {**transmissions[2][2], **transmissions[3][2]}
    mean = (n[0] * updates[0].vector + n[2] * updates[2].vector) / (n[0] + n[2])
    np.testing.assert_allclose(state["global"] - world.initial_model, mean, atol=1e-6)
    assert state["version"] == 1  # one instant, two servers
    assert fleet.ledger.to_ground_bytes == 2 * 4 * fleet.layout.size


def test_a_satellite_transmits_before_it_sets(
    transmissions: list[Transmission],
) -> None:
    """Satellite 0 comes back between two begins of rounds, satellite 2 is still in view then."""
    rows = [(0, 6, 0.0, 100.0), (0, 6, 350.0, 500.0), (2, 6, 420.0, 620.0), (2, 6, 0.0, 10.0)]
    world = planned(*rows)
    size = len(world.initial_model)
    method = AirFL(**NO_NOISE, bandwidth_mhz=size / 2e6 / 5.0)  # 5 s
    state, _ = play_world(method, world)
    moments = [(at_s, sorted(signals)) for at_s, _, signals in transmissions]
    # Both receive w in slot 1 as well. Satellite 2 is in view as slot 2 begins, and not for long.
    assert moments == [(495.0, [0, 2]), (600.0, [2])]
    assert state["version"] == 2
    assert state["base"].tolist() == [1, -1, 2, -1, -1, -1]


def test_fading_keeps_the_mean_power_and_differs_by_instant_and_server() -> None:
    with fleet_of(planned((0, 6, 0.0, 1800.0), (0, 7, 0.0, 1800.0))) as fleet:
        now = fleet.at(0)
        contacts, method = now.passes(), AirFL(snr_db=0.0, fading=True)
        found = np.array([[method._snr(now, c, at_s) for c in contacts] for at_s in range(1500)])
        assert [method._snr(now, contacts[0], 3.0)] == [found[3, 0]]
        plain = AirFL(snr_db=0.0)
        assert plain._snr(now, contacts[0], 3.0) == 1.0  # an unknown range is 1,000 km
    assert len(np.unique(found)) == 3000
    # Rician, K = 10: the power has mean 1 and variance (2 K + 1) / (K + 1)^2.
    assert found.mean() == pytest.approx(1.0, abs=0.04)
    assert found.var() == pytest.approx(21 / 121, rel=0.15)


def test_what_comes_to_nothing_is_tried_again() -> None:
    """Without charge no training is done; satellites in view keep asking for a model."""
    empty = {"battery_wh": 1.0, "solar_w": 0.0, "training_w": 1.0, "initial_charge": 0.0}
    onboard = {"samples_per_s": 10.0, "energy": empty}
    world = small_world(np.ones((4, 3), dtype=bool), onboard=onboard)
    state, fleet = play_world(AirFL(), world, rounds=4)
    assert state["version"] == 0
    assert fleet.ledger.to_ground_bytes == 0
    assert fleet.ledger.from_ground_bytes == 4 * 6 * 4 * fleet.layout.size
