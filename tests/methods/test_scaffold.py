"""SCAFFOLD: worked by hand, its identities, and what it is for."""

import numpy as np
import pytest

from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.scaffold import Scaffold
from fedorbit.methods.steps import effective_steps
from fedorbit.testing import fleet_of, play, small_world
from tests.methods.quadratic import play_on, quadratic_fleet


@pytest.mark.parametrize(
    ("steps", "weight"), [(0, 0.0), (1, 1.0), (2, 2.9), (7, 23.05), (25, 166.5), (85, 760.0)]
)
def test_effective_steps_of_momentum(steps: int, weight: float) -> None:
    rho = 0.9
    closed = (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    assert effective_steps(steps, rho) == pytest.approx(closed)
    assert effective_steps(steps, rho) == pytest.approx(weight, abs=0.05)
    assert effective_steps(steps, 0.0) == steps


@pytest.mark.parametrize("shrink", [0.0005, 0.0026, 0.15])
def test_effective_steps_with_a_pull_are_summed_impulse_responses(shrink: float) -> None:
    """A gradient of 1 at step j alone; where the model is after the last step."""
    tau, rho, total = 12, 0.9, 0.0
    for j in range(tau):
        velocity = moved = 0.0
        for step in range(tau):
            velocity = rho * velocity + float(step == j) - shrink * moved
            moved += velocity
        total += moved
    assert effective_steps(tau, rho, shrink) == pytest.approx(total)
    assert effective_steps(tau, 0.0, shrink) == pytest.approx((1 - (1 - shrink) ** tau) / shrink)


def test_two_rounds_worked_by_hand() -> None:
    """Optima at 1 and -1, two steps at rate 0.1 without momentum."""
    with quadratic_fleet([1, 1], [[1], [-1]], epochs=2) as fleet:
        state = play_on(fleet, Scaffold(), 1)
        np.testing.assert_allclose(state["control"], [[-0.95], [0.95]], rtol=1e-6)
        np.testing.assert_allclose(state["global"], [0.0], atol=1e-7)
        fleet.trainer.gradients.clear()
        Scaffold().round(state, fleet.at(1))
        # The first corrected gradients are -1 + 0.95 and 1 - 0.95: the models hardly part.
        for satellite, points in ((0, [0.0, 0.005]), (1, [0.0, -0.005])):
            found = [point for k, point, _ in fleet.trainer.gradients if k == satellite]
            assert found == pytest.approx(points, abs=1e-7)


def test_the_control_is_the_weighted_mean_of_the_gradients() -> None:
    """With momentum, c_k+ = sum a_j g_j / a(tau), whatever the correction was."""
    rho = 0.9
    with quadratic_fleet([1, 3], [[1], [-2]], samples=[3, 3], momentum=rho, rate=0.05) as fleet:
        state = play_on(fleet, Scaffold(), 2)
        fleet.trainer.gradients.clear()
        state = Scaffold().round(state, fleet.at(2))
        for k in (0, 1):
            met = [g[0] for satellite, _, g in fleet.trainer.gradients if satellite == k]
            a = [(1 - rho ** (3 - j)) / (1 - rho) for j in range(3)]
            assert state["control"][k, 0] == pytest.approx(np.dot(a, met) / sum(a), rel=1e-4)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("clients", ["satellite", "orbit"])
def test_it_reaches_the_optimum_where_fedavg_does_not(momentum: float, clients: str) -> None:
    """Heterogeneous parabolas in two orbits that are always in view: optimum (10 - 3) / 13."""
    with quadratic_fleet(
        [10, 3], [[1], [-1]], orbit_of=[0, 1], epochs=5, rate=0.01, momentum=momentum
    ) as fleet:
        optimum = (10 * 1 + 3 * -1) / 13
        drifted = play_on(fleet, FedAvg(), 300)["global"][0]
        state = play_on(fleet, Scaffold(clients=clients), 300)
    assert abs(drifted - optimum) > 0.01
    assert state["global"][0] == pytest.approx(optimum, abs=1e-4)


def test_dividing_by_the_steps_alone_would_diverge(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake of most public versions: momentum, and controls of displacement / (eta tau)."""
    monkeypatch.setattr("fedorbit.methods.scaffold.effective_steps", lambda steps, rho: steps)
    with quadratic_fleet([10, 3], [[1], [-1]], epochs=5, rate=0.01, momentum=0.9) as fleet:
        state = play_on(fleet, Scaffold(), 100)
    assert not np.isfinite(state["global"][0]) or abs(state["global"][0]) > 100


def test_the_first_round_is_fedavg() -> None:
    world = small_world(np.array([[1, 1, 1], [1, 0, 1]], dtype=bool))
    ours, theirs = play(Scaffold(), world), play(FedAvg(), world)  # the start, and both rounds
    np.testing.assert_array_equal(ours[1]["global"], theirs[1]["global"])
    assert not np.array_equal(ours[2]["global"], theirs[2]["global"])


@pytest.mark.parametrize("clients", ["satellite", "orbit"])
@pytest.mark.parametrize("unheard", ["ignore", "zero"])
def test_one_satellite_is_never_corrected(clients: str, unheard: str) -> None:
    world = small_world(np.ones((4, 1), dtype=bool), satellites_per_plane=1)
    ours = play(Scaffold(clients=clients, unheard=unheard), world)
    for one, other in zip(ours, play(FedAvg(), world), strict=True):
        np.testing.assert_array_equal(one["global"], other["global"])


@pytest.mark.parametrize("clients", ["satellite", "orbit"])
def test_a_first_round_of_several_intra_orbit_rounds_is_fedavg(clients: str) -> None:
    """No satellite was heard before, so that there is nothing to correct in any of them."""
    with quadratic_fleet([1, 2], [[1], [-3]], epochs=2, intra_rounds=3) as fleet:
        ours = play_on(fleet, Scaffold(clients=clients), 1)["global"]
        theirs = play_on(fleet, FedAvg(), 1)["global"]
        np.testing.assert_array_equal(ours, theirs)
        later = play_on(fleet, Scaffold(clients=clients), 60)["global"][0]
    if clients == "satellite":  # a single orbit corrects nothing
        assert later == pytest.approx((1 - 6) / 3, abs=1e-4)  # the optimum


@pytest.mark.parametrize("clients", ["satellite", "orbit"])
def test_c_is_the_mean_of_the_heard_controls(clients: str) -> None:
    world, method = small_world(), Scaffold(clients=clients)
    with fleet_of(world) as fleet:
        state = method.start(fleet)
        for t in range(6):
            now = fleet.at(t)
            state = method.round(state, now)
            n = now.samples if clients == "satellite" else now.orbits.samples
            n = n * state["heard"]
            expected = n @ state["control"].astype(float) / n.sum()
            np.testing.assert_allclose(method.mean_control(state, now), expected, atol=1e-6)
        literal = Scaffold(clients=clients, unheard="zero").mean_control(state, now)
        np.testing.assert_allclose(literal, expected * n.sum() / now.samples.sum(), atol=1e-6)


def test_unheard_orbits_do_not_slow_the_others_down() -> None:
    """Zero controls of the unheard hold the heard back; both rules agree once all are heard."""
    seen = np.zeros((40, 2))
    seen[:20, 0], seen[20:] = 1, 1
    settings = {"orbit_of": [0, 0, 1, 1], "epochs": 5, "rate": 0.02, "visible": seen}
    with quadratic_fleet([1, 1, 1, 1], [[1], [3], [-2], [-2]], **settings) as fleet:
        left = {
            unheard: abs(play_on(fleet, Scaffold(unheard=unheard), 20)["global"][0] - 2.0)
            for unheard in ("ignore", "zero")
        }
        assert left["ignore"] < 0.5 * left["zero"]
        ends = {u: play_on(fleet, Scaffold(unheard=u), 40) for u in ("ignore", "zero")}
        now = fleet.at(40 - 1)
        means = [Scaffold(unheard=u).mean_control(ends["zero"], now) for u in ends]
        np.testing.assert_array_equal(*means)  # all were heard


def test_it_doubles_the_traffic() -> None:
    """Two vectors to the ground for every one of FedAvg, and twice the exchanges in the orbit."""
    world = small_world(np.ones((3, 2), dtype=bool))
    spent = {}
    for method in (FedAvg(), Scaffold()):
        with fleet_of(world) as fleet:
            state = method.start(fleet)
            for t in range(3):
                state = method.round(state, fleet.at(t))
            spent[type(method)] = fleet.ledger
    ours, theirs = spent[Scaffold], spent[FedAvg]
    assert ours.to_ground_bytes == 2 * theirs.to_ground_bytes
    assert ours.isl_bytes == 2 * theirs.isl_bytes
    # c is zero in the first round; w goes out after every round, c before the other two.
    model = 4 * world.spec.layout.size
    assert ours.from_ground_bytes == theirs.from_ground_bytes + 2 * 2 * model
    assert ours.samples_trained == theirs.samples_trained


def test_facts_show_the_controls() -> None:
    with quadratic_fleet([1, 1], [[1], [-1]], epochs=2) as fleet:
        state = play_on(fleet, Scaffold(), 1)
        facts = Scaffold().facts(state, fleet.at(0))
    assert facts["control_norm"] == pytest.approx(0.0, abs=1e-6)
    assert facts["largest_control_norm"] == pytest.approx(0.95)


def test_a_lost_satellite_does_not_raise_the_mean_control() -> None:
    """Controls of zero for the unheard scale c by the share of the heard, which is at most 1."""
    with quadratic_fleet([1, 1], [[1], [-1]], samples=[3, 3], orbit_of=[0, 1]) as fleet:
        method = Scaffold(unheard="zero")
        state = play_on(fleet, method, 1)
        state["uploaded_samples"] = np.array([6, 3])  # a mate of the first was lost since
        state["uploaded"][:] = [[-0.9], [0.3]]
        found = method.mean_control(state, fleet.at(1))[0]
    assert found == pytest.approx((6 * -0.9 + 3 * 0.3) / 9, rel=1e-6)
