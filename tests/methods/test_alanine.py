"""ALANINE: a round worked by hand, its limits, its weights, and pruning."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fedorbit.methods.alanine import Alanine, similarity
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.local import Local
from fedorbit.methods.pruning import prunable
from fedorbit.testing import fleet_of, play, small_world, snapshots
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet

ALWAYS = np.ones((3, 3), dtype=bool)
HOT, COLD = 1e300, 1e-300
PLAIN: dict[str, Any] = {"personal": False, "final_sparsity": 0.0}
"""Neither personal models nor pruning."""


def test_a_round_worked_by_hand() -> None:
    """Orbits with optima at 1 and -2, one step at rate 0.1, three samples and one."""
    settings = {"orbit_of": [0, 1], "samples": [3, 1], "batch": 3, "rate": 0.1}
    with quadratic_fleet([1, 1], [[1.0], [-2.0]], **settings) as fleet:
        method = Alanine(temperature=2.0, **{"lambda": 0.5}, final_sparsity=0.0)
        state = play_on(fleet, method, 1)
        # x = 0.1 and -0.2 after training; d = 0.3^2 / (0.1 * 0.2) = 4.5.
        s = np.exp(-4.5 / 2.0)
        means = (3 * 0.1 + s * -0.2) / (3 + s), (3 * s * 0.1 - 0.2) / (3 * s + 1)
        x = [0.5 * 0.1 + 0.5 * means[0], 0.5 * -0.2 + 0.5 * means[1]]
        np.testing.assert_allclose(state["shared"][:, 0], x, rtol=1e-5)
        np.testing.assert_allclose(state["personal"][:, 0], [0.1, -0.2], rtol=1e-6)
        z = method.models(method.round(state, fleet.at(1)))[:, 0]
        slope = [0.1 - 1 + 0.5 * (0.1 - x[0]), -0.2 + 2 + 0.5 * (-0.2 - x[1])]
        np.testing.assert_allclose(z, [0.1 - 0.1 * slope[0], -0.2 - 0.1 * slope[1]], rtol=1e-5)


def test_without_any_preference_it_is_fedavg_with_all_in_view() -> None:
    world = small_world(ALWAYS)
    ours = snapshots(Alanine(temperature=HOT, rho=1.0, **PLAIN), world)
    for one, other in zip(ours, play(FedAvg(), world), strict=True):
        np.testing.assert_array_equal(one.state["shared"], np.tile(other["global"], (3, 1)))
    ledger, model = ours[-1].world["ledger"], 4 * world.spec.layout.size
    assert ledger["to_ground_bytes"] == ledger["from_ground_bytes"] == 0
    assert ledger["unlinked_bytes"] == 3 * 6 * model  # all others in each of three rounds
    assert ledger["isl_bytes"] == 3 * 3 * 2 * model  # exchanges within orbits of two


@pytest.mark.parametrize("limit", [{"rho": 0.0}, {"temperature": COLD}, {"peers": 0}])
def test_without_any_exchange_it_is_local(limit: dict[str, Any]) -> None:
    world = small_world(ALWAYS)
    ours = play(Alanine(**limit, **PLAIN), world)[-1]["shared"]
    theirs = play(Local(), world)[-1]["own"]
    if "rho" in limit:
        np.testing.assert_array_equal(ours, theirs)
    else:  # a mean of itself with itself
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "world",
    [
        small_world(np.zeros((3, 3), dtype=bool), links="causal"),
        planned((0, 1, 0.0, 1800.0), links="physical", isl="line-of-sight"),
    ],
)
def test_a_graph_without_links_between_orbits_is_local(world: Any) -> None:
    ours = play(Alanine(**PLAIN), world)[-1]["shared"]
    state = play(_LocalAtBase(), world)[-1]
    np.testing.assert_allclose(ours, state["own"], rtol=1e-6, atol=1e-7)
    if world.config.run.links == "physical":  # only the first orbit can aggregate at all
        assert not np.array_equal(ours[0], ours[1])
        np.testing.assert_array_equal(ours[1], world.initial_model)


class _LocalAtBase(Local):
    """Local with the run's epochs in every round."""

    def participants(self, now: Any) -> list[int]:
        return list(now.orbits.active)


def test_relays_by_satellites_alone_leave_the_ground_out() -> None:
    world = small_world(ALWAYS, links="causal")
    by_any, by_satellites = (
        snapshots(Alanine(relays=relays, **PLAIN), world)[-1] for relays in ("any", "satellites")
    )
    assert by_any.world["ledger"]["to_ground_bytes"] > 0
    assert by_satellites.world["ledger"]["to_ground_bytes"] == 0
    alone = play(Local(), world)[-1]["own"]
    np.testing.assert_allclose(by_satellites.state["shared"], alone, rtol=1e-6, atol=1e-7)


def test_weights_concentrate_on_units_with_the_same_data() -> None:
    """Orbits 0 and 2 have one optimum, 1 and 3 another."""
    optima = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    with quadratic_fleet([1] * 4, optima, orbit_of=[0, 1, 2, 3], rate=0.3) as fleet:
        method = Alanine(temperature=0.5, **PLAIN)
        x = play_on(fleet, method, 20)["shared"]
        w0, n = fleet.initial_model(), dict.fromkeys(range(4), 1)
        weights = method.weights(0, dict(enumerate(x)), n, w0)
    assert list(weights) == [0, 1, 2, 3]
    share = {j: weight / sum(weights.values()) for j, weight in weights.items()}
    assert sum(share.values()) == pytest.approx(1.0)
    assert share[0] == pytest.approx(share[2], rel=1e-4)
    assert share[1] < 0.05 * share[2]
    assert share[3] < 0.05 * share[2]
    np.testing.assert_allclose(x[0], x[2], atol=1e-5)
    assert abs(x[0, 0] - x[1, 0]) > 0.5


def test_the_most_similar_peers_count() -> None:
    models = {j: np.array([1.0, 0.1 * j], dtype=np.float32) for j in (0, 3, 5, 7)}
    n, w0 = dict.fromkeys(models, 2), np.zeros(2, dtype=np.float32)
    assert list(Alanine(peers=2).weights(5, models, n, w0)) == [3, 5, 7]
    assert list(Alanine(peers=1).weights(7, models, n, w0)) == [5, 7]
    assert Alanine(peers=1).weights(7, models, n, w0)[7] == 2.0


def test_similarity_has_no_scale_and_knows_the_first_model() -> None:
    w0, a, b = np.float32([1, 1]), np.float32([2, 1]), np.float32([1, 3])
    # |a - b|^2 = 5, |a - w0| = 1, |b - w0| = 2.
    assert similarity(a, b, w0, 1.5) == pytest.approx(np.exp(-5 / 2 / 1.5))
    assert similarity(a, b, w0, 1.5) == similarity(b, a, w0, 1.5)
    scaled = [w0 + 7 * (model - w0) for model in (a, b)]
    assert similarity(*scaled, w0, 1.5) == pytest.approx(similarity(a, b, w0, 1.5))
    assert similarity(a, a, w0, 1.5) == 1.0
    assert similarity(a, w0, w0, 1.5) == 0.0
    assert similarity(w0, w0, w0, 1.5) == 1.0


def test_mixing_without_preference_conserves_the_mean_of_equals() -> None:
    """Training at rate 1 moves every orbit to its optimum, and mixing keeps their mean."""
    optima = [[4.0], [-1.0], [2.0], [7.0]]
    settings = {"orbit_of": [0, 1, 2, 3], "rate": 1.0}
    with quadratic_fleet([1] * 4, optima, **settings) as fleet:
        for rho in (0.3, 1.0):
            method = Alanine(temperature=HOT, rho=rho, **PLAIN)
            x = play_on(fleet, method, 1)["shared"][:, 0]
            assert x.mean() == pytest.approx(3.0, rel=1e-6)
            assert np.ptp(x) == pytest.approx((1 - rho) * 8.0, abs=1e-5)


def test_a_pull_that_counts_and_one_that_does_not() -> None:
    with quadratic_fleet([1, 1], [[1.0], [-1.0]], orbit_of=[0, 1], rate=0.1) as fleet:
        common = {"temperature": HOT, "rho": 1.0, "final_sparsity": 0.0}
        free, tied = (
            Alanine(**common, **{"lambda": pull}).models(
                play_on(fleet, Alanine(**common, **{"lambda": pull}), 60)
            )
            for pull in (0.0, 3.0)
        )
    np.testing.assert_allclose(free[:, 0], [1, -1], atol=0.01)
    np.testing.assert_allclose(tied[:, 0], [0.25, -0.25], atol=0.01)  # (1 + 3 x 0) / 4


# --- Delays ---------------------------------------------------------------------------------------


def test_a_copy_counts_when_all_satellites_of_an_orbit_have_it() -> None:
    """Orbit 0 reaches satellite 2 in slot 1, and 3 through it in slot 3."""
    within = ((0, 1, 0.0, 1800.0), (2, 3, 0.0, 300.0), (2, 3, 900.0, 1800.0))
    world = planned(*within, (1, 2, 300.0, 400.0), links="physical", isl="line-of-sight")
    method = Alanine(**PLAIN)
    with fleet_of(world) as fleet:
        state, mixed = method.start(fleet), {}
        for t in range(6):
            state = method.round(state, fleet.at(t))
            mixed[t] = fleet.notes.record()["noted"]["peers"]["max"]
            fleet.notes.start_record()
    # Orbit 1 hears of orbit 0 in slot 3; orbit 0 of orbit 1 in slot 1, at once in both satellites.
    assert [t for t, peers in mixed.items() if peers] == [1, 3]


def test_a_model_does_not_wait_for_its_first_link() -> None:
    """Nothing is under way from orbits that have no link to others yet."""
    world = planned((1, 2, 1250.0, 1300.0), links="causal")
    played = snapshots(Alanine(**PLAIN), world)
    assert [len(s.world["mail"]) for s in played] == [0] * 7
    moved = [s.world["ledger"]["isl_bytes"] for s in played]
    each = 4 * world.spec.layout.size
    assert np.diff(moved).tolist() == [6 * each] * 4 + [8 * each] + [6 * each]


# --- Satellites -----------------------------------------------------------------------------------


def test_units_may_be_satellites() -> None:
    """Optima 1 and 3 in one orbit, -1 in another; without exchange each has its own."""
    settings = {"orbit_of": [0, 0, 1], "samples": [1, 3, 2], "batch": 3, "rate": 1.0}
    with quadratic_fleet([1] * 3, [[1.0], [3.0], [-1.0]], **settings) as fleet:
        alone = Alanine(unit="satellite", rho=0.0, **PLAIN)
        state = play_on(fleet, alone, 1)
        assert state["shared"][:, 0].tolist() == [1.0, 3.0, -1.0]
        np.testing.assert_allclose(alone.models(state)[:, 0], [(1 + 3 * 3) / 4, -1.0])
        together = Alanine(unit="satellite", rho=1.0, temperature=HOT, **PLAIN)
        x = play_on(fleet, together, 1)["shared"][:, 0]
        np.testing.assert_allclose(x, [(1 + 9 - 2) / 6] * 3, rtol=1e-6)


# --- Pruning --------------------------------------------------------------------------------------


def test_sparsity_is_a_staircase_under_a_cubic_curve() -> None:
    method = Alanine(final_sparsity=0.8, warm_up=20, prune_every=10, prune_until=120)
    assert [method.sparsity(t) for t in (0, 19, 20, 29)] == [0.0] * 4
    assert method.sparsity(30) == method.sparsity(39) == pytest.approx(0.8 * (1 - 0.9**3))
    assert method.sparsity(119) == pytest.approx(0.8 * (1 - 0.1**3))
    assert method.sparsity(120) == method.sparsity(1000) == 0.8


def test_pruned_values_are_zero_neither_trained_nor_sent_and_stay_so() -> None:
    world = small_world(np.ones((6, 3), dtype=bool))
    method = Alanine(final_sparsity=0.6, warm_up=1, prune_every=2, prune_until=5)
    layout, played = world.spec.layout, snapshots(method, world)
    free = prunable(layout)
    assert np.count_nonzero(~free) == layout.class_rows.size
    kept = [snapshot.state["mask"] for snapshot in played]
    for t, (one, other) in enumerate(pairwise(kept)):
        pruned = round(method.sparsity(t) * free.sum())
        np.testing.assert_array_equal((~other).sum(axis=1), [pruned] * 3)
        assert not (other & ~one).any()
        assert other[:, ~free].all()
        for name in ("shared", "personal"):
            assert not played[t + 1].state[name][~other].any()
    assert not np.array_equal(kept[-1][0], kept[-1][1])
    # The last round: kept values, and a bit per parameter for the mask, to two others.
    sent = 2 * (4 * kept[-1].sum() + 3 * -(-layout.size // 8))
    before, after = (s.world["ledger"]["unlinked_bytes"] for s in played[-2:])
    assert after - before == sent


def test_the_smallest_values_are_pruned() -> None:
    """At rate 1 models are the optima; half of the four values before the last layer go."""
    optima = [[4.0, -0.5, 0.25, 3.0, 0.1]]
    with quadratic_fleet([1], optima, rate=1.0) as fleet:
        method = Alanine(final_sparsity=0.5, warm_up=0, prune_until=1, prune_every=1)
        state = play_on(fleet, method, 2)
    assert state["mask"].tolist() == [[True, False, False, True, True]]
    np.testing.assert_allclose(state["shared"], [[4.0, 0.0, 0.0, 3.0, 0.1]])


def test_missing_values_of_a_peer_are_the_receivers_own() -> None:
    """Orbit 0 keeps the first value of two, orbit 1 both; the third is the last layer's."""
    optima = [[4.0, 0.5, 1.0], [2.0, 6.0, 3.0]]
    with quadratic_fleet([1, 1], optima, orbit_of=[0, 1], rate=1.0) as fleet:
        method = Alanine(temperature=HOT, rho=1.0, personal=False, final_sparsity=0.0)
        state = method.start(fleet)
        state["mask"][0, 1] = False
        x = method.round(state, fleet.at(0))["shared"]
    np.testing.assert_allclose(x, [[3.0, 0.0, 2.0], [3.0, 6.0, 2.0]])


def test_a_sparsity_of_zero_is_no_mask_to_the_bit() -> None:
    world = small_world(np.ones((4, 3), dtype=bool))
    never, later = (
        snapshots(Alanine(**how), world)[-1]
        for how in ({"final_sparsity": 0.0, "warm_up": 0}, {"final_sparsity": 0.9, "warm_up": 50})
    )
    np.testing.assert_array_equal(never.state["personal"], later.state["personal"])
    assert never.world["ledger"] == later.world["ledger"]
