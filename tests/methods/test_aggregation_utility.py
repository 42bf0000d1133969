"""Utility of aggregations, learned before a run from images that are not the run's."""

import numpy as np

from fedorbit.fleet import Fleet
from fedorbit.fleet.training import batch
from fedorbit.learning.jobs import LocalJob
from fedorbit.methods.aggregation_schedule import EMPTY, with_updates
from fedorbit.methods.aggregation_utility import (
    Regression,
    Trial,
    _tried_out,
    draw_trials,
    features,
)
from fedorbit.methods.fedspace import FedSpace
from fedorbit.testing import fleet_of, small_world, with_inverted_images

METHOD = FedSpace(horizon=6, least=2, most=6, candidates=5, utility="ridge", pairs=12, versions=3)
WORLD = small_world(np.ones((6, 3), dtype=bool), links="causal")


def outlook_of(fleet: Fleet):
    return METHOD.outlook(FedSpace().start(fleet), fleet.at(0))


def test_a_regression_finds_a_quadratic_function_of_a_buffer() -> None:
    rng = np.random.default_rng(0)
    ages, arrived = rng.integers(0, 5, (4000, 12)), rng.random((4000, 12)) < rng.random((4000, 1))
    contents = with_updates(np.tile(EMPTY, (4000, 1)), ages, np.arange(1, 13), 0.5, arrived)
    x = features(contents, 78, rng.random(4000))
    y = 0.3 + 2.0 * x[:, 2] - 0.5 * x[:, 1] * x[:, 6]
    found = Regression.fit(x[:3000], y[:3000])
    restored = Regression.of_array(found.array())
    np.testing.assert_allclose(restored.predict(x[3000:]), y[3000:], atol=0.02 * y.std())


def test_features_do_not_depend_on_the_order_of_satellites() -> None:
    rng = np.random.default_rng(0)
    ages, n, arrived = rng.integers(0, 5, 9), rng.integers(1, 9, 9), rng.random(9) < 0.6
    order = rng.permutation(9)
    one, other = (
        with_updates(EMPTY, ages[o], n[o], 0.5, arrived[o]) for o in (np.arange(9), order)
    )
    x = features(np.array([one, other]), int(n.sum()), 1.5)
    np.testing.assert_allclose(x[0], x[1], rtol=1e-12)
    m = arrived.sum()
    c = (1.0 + ages[arrived]) ** -0.5
    expected = [m, n[arrived].sum() / n.sum(), c.sum(), c.mean(), ages[arrived].mean()]
    np.testing.assert_allclose(x[0, :7], [*expected, ages[arrived].max(), 1.5])
    assert x.shape[1] == 7 + 28
    np.testing.assert_allclose(features(EMPTY[None], 5, 0.0), 0.0)


def test_a_trial_by_hand() -> None:
    """Satellites 0 and 2 bring updates of w_0 and w_1 when the version is 1."""
    with fleet_of(WORLD) as fleet:
        outlook, n = outlook_of(fleet), fleet.at(0).samples
        trials = [
            Trial(1, np.array([0, 2]), np.array([1, 0])),
            Trial(0, np.array([2]), np.array([0])),
        ]
        with fleet.rehearsal() as rehearsal:
            gains, status = _tried_out(fleet, outlook, trials, 2, True, rehearsal)

            def made_of(w: np.ndarray, base: int) -> dict[int, np.ndarray]:
                at_work = np.flatnonzero(n).tolist()
                jobs = [LocalJob(k, w, 1, fleet.plan.rate(0), (base,)) for k in at_work]
                done = rehearsal.engine.run({0: batch(jobs)})[0]
                return {k: x.model for k, x in zip(at_work, done, strict=True)}

            def loss(w: np.ndarray, samples: np.ndarray) -> float:
                return rehearsal.engine.evaluate([w], [samples])[0][1] / len(samples)

            w0 = fleet.initial_model()
            first = made_of(w0, 0)
            w1 = np.average([*first.values()], axis=0, weights=n[list(first)]).astype(np.float32)
            second = made_of(w1, 1)
            weights = [2**-0.5 * n[0], n[2]]
            step = np.average([first[0] - w0, second[2] - w1], axis=0, weights=weights)
            after = [(w1 + step).astype(np.float32), first[2]]
            held_out = rehearsal.held_out
            expected = [
                loss(w, held_out) - loss(x, held_out) for w, x in zip((w1, w0), after, strict=True)
            ]
            np.testing.assert_allclose(gains, expected, atol=1e-6)
            at = [loss(w, rehearsal.train) for w in (w1, w0)]
            np.testing.assert_allclose(status, at, rtol=1e-6)


def test_trials_are_buffers_that_occur() -> None:
    with fleet_of(small_world(links="causal")) as fleet:
        outlook = outlook_of(fleet)
        trials = draw_trials(outlook, 200, 4, 1, 4, np.random.default_rng(0))
        assert len(trials) == 200
        assert {trial.version for trial in trials} == {0, 1, 2, 3}
        for trial in trials:
            assert len(trial.satellites) == len(trial.staleness) > 0
            assert (outlook.samples[trial.satellites] > 0).all()
            assert trial.staleness.min() >= 0
            assert trial.staleness.max() <= trial.version
        assert max(trial.staleness.max() for trial in trials) > 0
        nothing = np.zeros_like(outlook.visits)
        unseen = type(outlook)(**{**vars(outlook), "visits": nothing})
        assert draw_trials(unseen, 5, 2, 1, 4, np.random.default_rng(0)) == []


def test_what_is_learned_knows_no_image_of_the_run() -> None:
    learned = []
    for world in (WORLD, with_inverted_images(WORLD, range(6))):
        with fleet_of(world) as fleet:
            learned.append(METHOD.start(fleet)["ridge"])
    np.testing.assert_array_equal(*learned)
    assert np.abs(learned[0][2]).max() > 0
    with fleet_of(WORLD) as fleet, fleet.rehearsal() as rehearsal:
        assert not set(rehearsal.train) & set(rehearsal.held_out)


def test_without_a_visit_nothing_is_learned() -> None:
    with fleet_of(small_world(np.zeros((6, 3), dtype=bool))) as fleet:
        found = Regression.of_array(METHOD.start(fleet)["ridge"])
    np.testing.assert_array_equal(found.predict(features(np.ones((2, 6)), 3, 1.0)), 0.0)
