"""FedOrbit, equation by equation, worked in plain NumPy loops."""

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from fedorbit.learning.jobs import batch_order
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedorbit import FedOrbit, mean_by_magnitude
from fedorbit.testing import (
    PATTERN,
    assert_same,
    fleet_of,
    members,
    play,
    small_world,
    with_inverted_images,
)
from tests.fleet.plans import planned
from tests.methods.quadratic import paired_orbits

E_BASE, ETA_0, GAMMA = 1, 0.01, 0.998  # as in small_world


def train(world, fleet, orbit, t, start, epochs, rate, intra):
    """Every satellite of an orbit by itself, in satellite order."""
    trainer = world.trainer()
    jobs = fleet.at(t).orbits.jobs(orbit, start, epochs=epochs, rate=rate, intra_round=intra)
    return [
        trainer.train(job, batch_order(world.data, job, world.config.seed)).model for job in jobs
    ]


def orbit_aggregate(world, fleet, orbit, start, models, t=0):
    """(3) and (4), element by element."""
    layout, satellites = world.spec.layout, fleet.at(t).orbits.trainers(orbit)
    s = fleet.at(t).class_counts[satellites].astype(float)
    n = s.sum(axis=1)
    result = start.astype(float).copy()
    f = layout.features.stop
    for p in range(f):
        moved = [abs(float(w[p]) - float(start[p])) for w in models]
        weights = moved if sum(moved) > 0 else n
        result[p] = sum(a * float(w[p]) for a, w in zip(weights, models, strict=True)) / sum(
            weights
        )
    for p in layout.shared_classifier:
        result[p] = sum(a * float(w[p]) for a, w in zip(n, models, strict=True)) / n.sum()
    for c, row in enumerate(layout.class_rows):
        if s[:, c].sum() > 0:
            for p in row:
                result[p] = (
                    sum(a * float(w[p]) for a, w in zip(s[:, c], models, strict=True))
                    / s[:, c].sum()
                )
    return result.astype(np.float32)


@pytest.mark.parametrize(
    ("links", "blend"), [("ideal", "own"), ("causal", "own"), ("ideal", "literal")]
)
def test_two_rounds_worked_by_hand(links: str, blend: str) -> None:
    method = FedOrbit(blend=blend, dark_epochs=2, max_epochs=3, catch_up=0.7)
    visible = np.array([[0, 1, 0], [1, 0, 0]], dtype=bool)
    world = small_world(visible, links=links, samples=60)
    layout = world.spec.layout
    f = layout.features.stop
    states = play(method, world)
    with fleet_of(world) as fleet:
        n_l = fleet.at(0).orbits.samples
        counts = fleet.at(0).orbits.class_counts.astype(float)
        a_lc = counts / counts.sum(axis=0)  # a_lc
        smoothed = [0.9 * c / c.sum() + 0.1 / 4 for c in counts]
        pairs = [(0, 1), (0, 2), (1, 2)]
        beta = (
            2 / (3 * 2) * sum(1 - jensenshannon(smoothed[i], smoothed[j], base=2) for i, j in pairs)
        )
        assert method.similarity(fleet.at(0)) == pytest.approx(beta, abs=1e-9)

        w0 = fleet.initial_model()
        model = dict.fromkeys(range(3), w0)
        gs = {"w": w0, "uploads": {}, "q": {}}
        tau = [0, 0, 0]
        for t in range(2):
            eta_t = ETA_0 * GAMMA**t
            trained, q = {}, {}
            for o in range(3):
                if visible[t, o]:
                    epochs = int(np.floor(min(3, E_BASE + 0.7 * tau[o])))  # (1)
                    rate = eta_t / (1 + 0.5 * tau[o] / world.schedule.tau_max)  # (1)
                    w = model[o]
                    for r in range(2):
                        w = orbit_aggregate(
                            world, fleet, o, w, train(world, fleet, o, t, w, epochs, rate, r)
                        )
                    trained[o], q[o], tau[o] = w, epochs * 2, 0
                else:
                    w = train(world, fleet, o, t, model[o], 2, eta_t, 0)
                    trained[o], q[o] = orbit_aggregate(world, fleet, o, model[o], w), 2
                    tau[o] += 1
            linked = [o for o in range(3) if links == "ideal" or visible[t, o]]
            for o in linked:
                gs["uploads"][o], gs["q"][o] = trained[o], q[o]
            known = sorted(gs["uploads"])
            up = {o: gs["uploads"][o].astype(float) for o in known}
            stale = {o: 0.95 ** tau[o] for o in known}
            w = gs["w"].astype(float).copy()
            w[:f] = sum(gs["q"][o] * up[o][:f] for o in known) / sum(
                gs["q"][o] for o in known
            )  # (5)
            fc2 = layout.shared_classifier
            w[fc2] = sum(n_l[o] * stale[o] * up[o][fc2] for o in known) / sum(
                n_l[o] * stale[o] for o in known
            )
            for c, row in enumerate(layout.class_rows):  # (6)
                total = sum(a_lc[o, c] * stale[o] for o in known)
                if total > 0:
                    w[row] = sum(a_lc[o, c] * stale[o] * up[o][row] for o in known) / total
            gs["w"] = w.astype(np.float32)
            new = dict(trained)
            for o in linked:
                blended = trained[o] if blend == "own" else model[o]
                new[o] = gs["w"].copy()
                new[o][:f] = (1 - beta) * blended[:f] + beta * gs["w"][:f]  # (8)
            model = new

            for o in range(3):
                np.testing.assert_allclose(
                    method.models(states[t + 1])[o],
                    model[o],
                    atol=1e-6,
                    err_msg=f"round {t} orbit {o}",
                )
            # From here on with the method's own bits, so that rounding does not add up.
            model = {o: method.models(states[t + 1])[o] for o in range(3)}
            gs["w"] = states[t + 1]["global"]
            assert fleet.at(t).orbits.dark_rounds(after=1).tolist() == tau


def test_catch_up_and_dampening() -> None:
    method = FedOrbit()
    assert [method.visible_epochs(5, tau) for tau in (0, 1, 2, 3, 7, 8, 191)] == [
        5,
        5,
        6,
        7,
        9,
        10,
        10,
    ]
    assert method.dampened(0.01, 191, 191) == pytest.approx(0.01 / 1.5)  # as the paper states
    assert method.dampened(0.01, 0, 191) == 0.01
    assert FedOrbit(kappa=0.0).dampened(0.01, 100, 191) == 0.01
    assert FedOrbit(catch_up=0.0).visible_epochs(5, 100) == 5


def test_elementwise_weights_are_update_magnitudes() -> None:
    start = np.array([0.0, 1.0, 2.0], dtype=np.float32)
    models = np.array([[1.0, 1.0, 2.0], [-3.0, 2.0, 2.0]], dtype=np.float32)
    otherwise = np.array([9.0, 9.0, 9.0], dtype=np.float32)
    # (1*1 + 3*(-3)) / 4 = -2;  (0*1 + 1*2) / 1 = 2;  nobody moved: otherwise.
    assert mean_by_magnitude(models, start, otherwise).tolist() == [-2.0, 2.0, 9.0]


def test_without_its_mechanisms_and_always_visible_it_is_fedavg() -> None:
    bare = FedOrbit(
        continuous=False,
        class_rows=False,
        magnitude_features=False,
        quality_weights=False,
        kappa=0.0,
        catch_up=0.0,
        intra_rounds=1,
        beta=1.0,
    )
    world = small_world(np.ones((4, 3), dtype=bool))
    ours, fedavg = play(bare, world)[-1], play(FedAvg(), world)[-1]
    np.testing.assert_array_equal(ours["global"], fedavg["global"])
    np.testing.assert_array_equal(ours["model"], fedavg["received"])


def test_without_continuous_training_extractors_do_not_wear_down_out_of_view() -> None:
    visible = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 1]], dtype=bool)
    method, world = FedOrbit(continuous=False, beta=0.3), small_world(visible)
    states = play(method, world)
    features = world.spec.layout.features
    apart = [
        np.linalg.norm(state["model"][0, features] - state["model"][1, features])
        for state in states
    ]
    assert apart[1] > 0
    assert apart[1] == apart[2] == apart[3] == apart[4]
    for t in (1, 2, 3):  # and nothing else happens
        assert_same(states[t], states[t + 1])
    # Those in view alone exchange models, so ideal links are of no use.
    for ideal, causal in zip(
        states, play(method, small_world(visible, links="causal")), strict=True
    ):
        assert_same(ideal, causal)


def test_beta_1_makes_all_orbits_equal_and_beta_0_keeps_features_apart() -> None:
    world = small_world()
    f = world.spec.layout.features
    same = play(FedOrbit(beta=1.0), world)[-1]["model"]
    np.testing.assert_array_equal(same[0], same[1])
    apart = play(FedOrbit(beta=0.0), world)[-1]["model"]
    assert not np.array_equal(apart[0, f], apart[1, f])
    np.testing.assert_array_equal(apart[0, f.stop :], apart[1, f.stop :])


def test_the_literal_blend_keeps_all_personal_extractors_equal() -> None:
    world = small_world()
    f = world.spec.layout.features
    literal = play(FedOrbit(blend="literal"), world)[-1]["model"]
    np.testing.assert_array_equal(literal[0, f], literal[2, f])
    own = play(FedOrbit(blend="own"), world)[-1]["model"]
    assert not np.array_equal(own[0, f], own[2, f])


def test_ideal_links_do_carry_news_from_orbits_never_seen() -> None:
    """Under ideal links the flow happens that the causal suite forbids, so that test can fail."""
    world = small_world(links="ideal")
    changed = with_inverted_images(world, members(world, 2))
    assert not PATTERN[0, 2]
    true, altered = (play(FedOrbit(), w)[1]["model"] for w in (world, changed))
    assert not np.array_equal(true[0], altered[0])


def test_links_are_booked() -> None:
    model_bytes = 4 * small_world().spec.layout.size
    for links in ("ideal", "causal"):
        world = small_world(links=links)
        with fleet_of(world) as fleet:
            method, state = FedOrbit(), FedOrbit().start(fleet)
            for t in range(6):
                state = method.round(state, fleet.at(t))
            contacts = int(PATTERN.sum())
            # One upload and one download per contact, exactly as FedAvg (R4).
            assert (
                fleet.ledger.to_ground_bytes
                == contacts * model_bytes
                == fleet.fedavg_to_ground_bytes(6)
            )
            assert fleet.ledger.from_ground_bytes == contacts * model_bytes
            dark = PATTERN.size - contacts
            assert fleet.ledger.unlinked_bytes == (
                2 * dark * model_bytes if links == "ideal" else 0
            )
            # Two satellites per orbit: one model out, one back; twice for visible orbits.
            trainings = sum(
                (2 if PATTERN[t, o] else 1)
                for t in range(6)
                for o in range(3)
                if fleet.at(t).orbits.trainers(o)
            )
            assert fleet.ledger.isl_bytes == 2 * trainings * model_bytes


def test_rounds_without_contact_change_nothing_at_the_ground_in_a_causal_world() -> None:
    states = play(FedOrbit(), small_world(links="causal"))
    assert not PATTERN[1].any()
    for key in ("global", "uploaded", "quality", "counts"):
        assert_same({key: states[1][key]}, {key: states[2][key]})
    assert not np.array_equal(states[1]["model"], states[2]["model"])


def test_over_physical_links_an_orbit_meets_the_ground_once_per_result() -> None:
    """Satellites 0 and 1 of orbit 0 are linked in slots 0, 3 and 5; 0 always meets the ground.

    The first cycle begins and ends in slot 0 and is uploaded there. The second begins in slot 1
    and ends in slot 3, the third begins in slot 4 and ends in slot 5. In between nothing is new.
    """
    rows = ((0, 6, 0.0, 1800.0), (0, 1, 0.0, 10.0), (0, 1, 950.0, 960.0), (0, 1, 1510.0, 1520.0))
    world = planned(*rows, links="physical", isl="line-of-sight")
    model_bytes, method, sent = 4 * world.spec.layout.size, FedOrbit(), []
    with fleet_of(world) as fleet:
        states = [method.start(fleet)]
        for t in range(6):
            before = fleet.ledger.to_ground_bytes
            states.append(method.round(states[-1], fleet.at(t)))
            sent.append((fleet.ledger.to_ground_bytes - before) // model_bytes)
    assert [state["result"][0] for state in states] == [-1, 0, 0, 0, 3, 3, 5]
    assert [state["met"][0] for state in states] == [0, 1, 1, 1, 4, 4, 6]
    assert sent == [1, 0, 0, 1, 0, 1]


def test_a_late_result_takes_the_place_of_the_one_that_the_ground_has() -> None:
    """Orbit 0 meets the ground in slot 1, between the begin and the end of its second cycle.

    Its first result, of slot 0, has no contact before; orbit 1 has met the ground. The model after
    the second cycle is the one it would have, had it met the ground with the second result.
    """
    rows = ((0, 1, 0.0, 10.0), (0, 6, 350.0, 400.0), (0, 1, 950.0, 960.0),
            (2, 3, 0.0, 10.0), (2, 6, 0.0, 100.0))  # fmt: skip
    world = planned(*rows, links="physical", isl="line-of-sight")
    method = FedOrbit(beta=0.5)
    with fleet_of(world) as fleet:
        states = [method.start(fleet)]
        for t in range(4):
            states.append(method.round(states[-1], fleet.at(t)))
            if t == 1:
                assert fleet.aggregations is not None
                [under_way] = [one for one in fleet.aggregations._under_way if one.orbit == 0]
                trained, _, begun = under_way.results[0]
        first, blended, last = (states[t]["model"][0] for t in (1, 2, 4))
        met = states[2]
        np.testing.assert_array_equal(met["uploaded"][0], first)
        # The ground's means, with the second result in place of the first.
        uploaded = met["uploaded"].copy()
        uploaded[0] = trained
        fresh = method.rho ** (2 - met["met"])
        w = method._aggregate_at_ground(
            states[1]["global"], uploaded, met["quality"], met["counts"], fresh, fleet.at(1)
        )
    f = world.spec.layout.features
    assert begun == 1
    np.testing.assert_array_equal(blended[f], 0.5 * first[f] + 0.5 * met["global"][f])
    np.testing.assert_allclose(last[f], 0.5 * trained[f] + 0.5 * w[f], atol=1e-6)
    np.testing.assert_allclose(last[f.stop :], w[f.stop :], atol=1e-6)
    np.testing.assert_array_equal(states[4]["trained"][0], trained)  # what it uploads next
    assert np.abs(last - trained).max() > 1e-4


def test_over_physical_links_models_stay_bounded() -> None:
    """Five orbits that differ, each meets the ground a slot after its mates do.

    With differences in full, classifiers would swing ever wider: training moves by more than 1.
    """
    causal, physical = (
        _widest(FedOrbit(dark_epochs=25, intra_rounds=1, kappa=0.0, catch_up=0.0), routed)
        for routed in (False, True)
    )
    assert physical < 2.0 * causal


def _widest(method: FedOrbit, routed: bool) -> float:
    """The largest value of any model in the last 50 of 200 rounds on parabolas at -1 to 3."""
    means = np.repeat(np.linspace(-1.0, 3.0, 5), 2)[:, None]
    contact = [[(t + o) % 5 == 1 for o in range(5)] for t in range(200)]
    with paired_orbits(means, contact, routed=routed, epochs=25, momentum=0.9, rate=0.01) as fleet:
        state, widest = method.start(fleet), 0.0
        for t in range(200):
            state = method.round(state, fleet.at(t))
            widest = max(widest, np.abs(state["model"]).max()) if t >= 150 else widest
    return widest
