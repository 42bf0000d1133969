"""FedSpace: aggregation rules that reduce it to known methods, and plans that come true."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fedorbit.errors import ConfigError
from fedorbit.fleet import Fleet, Now
from fedorbit.methods import State, make_method
from fedorbit.methods.aggregation_schedule import UPDATES
from fedorbit.methods.fedspace import FedSpace
from fedorbit.methods.steps import NEVER
from fedorbit.testing import fleet_of, play, small_world, snapshots, with_inverted_images
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet

H, M, N = np.array([1.0, 0.5, 2.0]), np.array([[3.0, 1.0], [-1.0, 2.0], [0.5, -4.0]]), [1, 2, 4]
"""Three satellites, each in an orbit of its own."""
TURNS = np.tile(np.eye(3, dtype=int), (4, 1))
"""They visit one after the other."""


def trained(k: int, w: np.ndarray) -> np.ndarray:
    """Return what satellite k makes of a model: one step per sample, toward its minimum."""
    return M[k] + (w - M[k]) * (1.0 - 0.1 * H[k]) ** N[k]


def three(visible: Any, **changes: Any):
    settings = {"samples": N, "orbit_of": [0, 1, 2], "rounds": len(visible), **changes}
    return quadratic_fleet(H, M, visible=visible, **settings)


class Always(FedSpace):
    """Asynchronous: a = 1 in every slot."""

    def aggregates(self, state: State, now: Now) -> bool:
        return True


class WhenFull(FedSpace):
    """FedBuff: a = 1 when as many updates as `most` are in the buffer."""

    def aggregates(self, state: State, now: Now) -> bool:
        return bool(state["contents"][UPDATES] >= self.most)


def test_with_an_aggregation_in_every_slot_it_is_asynchronous() -> None:
    with three(TURNS) as fleet:
        state = play_on(fleet, Always(alpha=0.5), 6)
    w = np.zeros(2)
    for k in range(3):  # each alone in the buffer: its staleness cancels out
        w = w + trained(k, np.zeros(2))
    np.testing.assert_allclose(state["global"], w, rtol=1e-5)
    assert state["version"] == 3
    assert state["base"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 3.0])
def test_waiting_for_all_is_synchronous_fedavg(alpha: float) -> None:
    """Two rounds of FedAvg take four cycles of visits: out with the model, back with updates."""
    with three(TURNS) as fleet:
        state = play_on(fleet, WhenFull(alpha=alpha, most=3, least=1), 12)
        notes = fleet.notes.record()["noted"]
    w = np.zeros(2)
    for _ in range(2):
        w = np.average([trained(k, w) for k in range(3)], axis=0, weights=N)
    np.testing.assert_allclose(state["global"], w, rtol=1e-5)
    assert state["version"] == 2
    assert notes["staleness"]["max"] == 0
    assert notes["buffer"]["max"] == 3
    assert notes["version"] == {"count": 2, "mean": 1.5, "max": 2.0, "last": 2.0}
    assert "idle_visit" not in notes


def test_a_visit_with_nothing_to_send_and_nothing_new_is_idle() -> None:
    """Satellite 0 has sent its update in slot 2, and waits for the others in slots 4 and 6."""
    visible = [[1, 1, 1], [0] * 3, [1, 0, 0], [0] * 3, [1, 0, 0], [0] * 3, [1, 0, 0], [0] * 3]
    with three(visible) as fleet:
        play_on(fleet, WhenFull(most=3, least=1), 8)
        assert fleet.notes.record()["noted"]["idle_visit"]["count"] == 2


@pytest.mark.parametrize("samples", [True, False])
def test_aggregating_at_two_updates_is_fedbuff(samples: bool) -> None:
    rng = np.random.default_rng(5)
    visits = rng.random((30, 3)) < 0.4
    method = WhenFull(most=2, least=1, alpha=0.7, sample_weights=samples)
    with three(visits) as fleet:
        state = play_on(fleet, method, 30)
    w, version, buffer = np.zeros(2), 0, []
    base, held, at_work = {}, [-1] * 3, [False] * 3
    for here in visits:
        visitors = np.flatnonzero(here).tolist()
        for k in visitors:
            if at_work[k]:
                update, c = trained(k, base[k]) - base[k], (1 + version - held[k]) ** -0.7
                buffer.append((update, c * (N[k] if samples else 1)))
                at_work[k] = False
        if len(buffer) >= 2:
            w = w + np.average([u for u, _ in buffer], axis=0, weights=[c for _, c in buffer])
            version, buffer = version + 1, []
        for k in visitors:
            if not at_work[k] and held[k] < version:
                base[k], held[k], at_work[k] = w, version, True
    assert version == state["version"] > 4
    np.testing.assert_allclose(state["global"], w, rtol=1e-4)


def test_without_discount_and_with_equal_samples_it_is_the_mean_of_the_updates() -> None:
    visible = [[1, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 0]]
    method = FedSpace(alpha=0.0, horizon=4, least=4, most=4, candidates=1)
    with three(visible, samples=[2, 2, 2]) as fleet:
        state = play_on(fleet, method, 3)
    made = [M[k] * (1 - (1 - 0.1 * H[k]) ** 2) for k in range(3)]  # of the first model
    first = made[0]
    again = M[0] + (first - M[0]) * 0.9**2 - first  # satellite 0 has left with version 1
    expected = first + np.mean([again, made[1], made[2]], axis=0)
    np.testing.assert_allclose(state["global"], expected, rtol=1e-5)
    assert state["version"] == 2


def test_a_satellite_that_cannot_be_sent_a_version_does_not_hold_it() -> None:
    """Its contacts are too short for a model, all together."""
    world = planned((0, 6, 0.0, 50.0), (2, 6, 0.0, 300.0))
    slow = {"from_ground_mbps": 32 * len(world.initial_model) / 1e6 / 60.0}
    world = planned((0, 6, 0.0, 50.0), (2, 6, 0.0, 300.0), rates=slow)
    state = play(FedSpace(), world)[1]
    assert state["base"].tolist() == [-1, -1, 0, -1, -1, -1]
    assert state["ready"][0] == NEVER


# --- Plans --------------------------------------------------------------------------------------


class Watched(FedSpace):
    """Plans and what then happens are written down."""

    def watch(self, fleet: Fleet) -> Iterator[tuple[list[Any], list[Any]]]:
        """Yield, for each plan, staleness and versions as played and as they occur."""
        state = self.start(fleet)
        for begin in range(0, fleet.topology.slots, self.horizon):
            played, occurred = [], []
            for t in range(begin, min(begin + self.horizon, fleet.topology.slots)):
                now = fleet.at(t)
                if t == begin:
                    outlook = self.outlook(state, now)
                    schedule = self.plan(state, now)[: len(outlook.visits)]
                    for slot in outlook.play(schedule[None]):
                        brought = dict(zip(slot.visitors, slot.staleness[0], strict=True))
                        known = slot.contents[0].tolist() if len(slot.rows) else None
                        played.append(({k: s for k, s in brought.items() if s >= 0}, known))
                occurred.append(({}, None))
                state = self._seen(state, now, occurred)
            yield played, occurred

    def _seen(self, state: State, now: Now, occurred: list[Any]) -> State:
        version, sent = int(state["version"]), {}
        receive = now.fleet.network.receive

        def noted(t: int, node: int) -> Any:
            arrived = receive(t, node)
            if now.fleet.topology.is_server(node):
                sent.update({m.source: version - m.about["version"] for m in arrived})
            return arrived

        now.fleet.network.receive = noted  # type: ignore[method-assign]
        contents = []
        aggregates = self.aggregates

        def watched(state: State, now: Now) -> bool:
            due = aggregates(state, now)
            contents.append(state["contents"].tolist() if due else None)
            return due

        object.__setattr__(self, "aggregates", watched)
        try:
            return self.round(state, now)
        finally:
            object.__delattr__(self, "aggregates")
            now.fleet.network.receive = receive  # type: ignore[method-assign]
            occurred[-1] = sent, contents[0] if contents else None


@pytest.mark.parametrize("samples_per_s", [None, 4.0, 1.0])
def test_what_was_played_is_what_occurs(samples_per_s: float | None) -> None:
    """Also of plans that begin with updates under way and in the buffer."""
    visits = np.random.default_rng(3).random((40, 3)) < 0.3
    method = Watched(horizon=8, least=1, most=3, candidates=4)
    with three(visits, samples_per_s=samples_per_s) as fleet:
        plans = list(method.watch(fleet))
    assert len(plans) == 5
    for played, occurred in plans:
        assert [s for s, _ in played] == [s for s, _ in occurred]
        for (_, foreseen), (_, found) in zip(played, occurred, strict=True):
            assert (foreseen is None) == (found is None)
            if found is not None:
                np.testing.assert_allclose(foreseen, found, rtol=1e-12)
    ages = [s for _, occurred in plans for sent, _ in occurred for s in sent.values()]
    assert len(ages) > 8
    assert max(ages) > 1


def test_a_plan_follows_from_contacts_alone() -> None:
    world = small_world(links="causal")
    method = FedSpace(horizon=3, least=1, most=2, candidates=50)
    schedules = [
        [state["schedule"] for state in play(method, each)]
        for each in (world, with_inverted_images(world, [0, 3, 5]))
    ]
    np.testing.assert_array_equal(*schedules)
    assert np.any(schedules)


def test_a_plan_does_not_know_of_losses_to_come() -> None:
    events = [{"round": 4, "kind": "leave", "orbit": orbit} for orbit in (0, 1)]
    method = FedSpace(horizon=6, least=2, most=2, candidates=30)
    one, other = (play(method, small_world(events=e))[1] for e in ([], events))
    np.testing.assert_array_equal(one["schedule"], other["schedule"])


def test_more_aggregations_at_least_than_at_most_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"methods.fedspace: .*least must be at most `most` \(3\)"
    ):
        make_method("fedspace", {"least": 4, "most": 3})


# --- The training status ------------------------------------------------------------------------

RIDGE = FedSpace(horizon=6, least=2, most=6, candidates=5, utility="ridge", pairs=8, versions=2)


def test_satellites_report_the_loss_of_what_they_received_and_book_it() -> None:
    """Samples are fewer than a batch: the loss is that of all of them."""
    world = small_world(np.ones((3, 3), dtype=bool), samples=60)
    batch = world.config.training.batch
    sizes = np.array([len(part) for part in world.partition.train])
    assert 0 < sizes.min() <= sizes.max() <= batch
    first, *_, last = snapshots(RIDGE, world)
    trainer = world.trainer()
    expected = [
        trainer.evaluate(world.initial_model, part)[1] / len(part) for part in world.partition.train
    ]
    with fleet_of(world) as fleet:
        assert RIDGE.status(first.state, fleet) == np.log(4)  # that of guessing
        state = RIDGE.round(first.state, fleet.at(0))
        assert np.isnan(state["loss"]).all()  # not sent yet
        state = RIDGE.round(state, fleet.at(1))
        np.testing.assert_allclose(state["loss"], expected, rtol=1e-6)
        np.testing.assert_allclose(RIDGE.status(state, fleet), np.mean(expected), rtol=1e-6)
        assert fleet.ledger.samples_trained >= 4 * sizes.sum()  # twice a training, twice a loss
    plain = snapshots(RIDGE.model_copy(update={"utility": "mass"}), world)[-1]
    assert "loss" not in plain.state
    assert last.world["ledger"]["samples_trained"] > plain.world["ledger"]["samples_trained"]


def test_what_was_learned_and_the_status_decide_by_ridge() -> None:
    world = small_world(np.ones((6, 3), dtype=bool))
    with fleet_of(world) as fleet:
        state = RIDGE.start(fleet)
        many = RIDGE.model_copy(update={"candidates": 200})
        # Worth nothing but for the square of T (of 7 features, the last product): never, or often.
        learned = np.zeros_like(state["ridge"])
        learned[1], learned[2, -1] = 1.0, -1.0
        assert many.plan({**state, "ridge": learned}, fleet.at(0)).sum() == 2
        assert (
            many.plan({**state, "ridge": -learned * [[1], [-1], [1], [1]]}, fleet.at(0)).sum() == 6
        )


def test_without_images_to_learn_from_ridge_is_refused() -> None:
    with (
        quadratic_fleet([1.0], [[1.0]], rounds=3) as fleet,
        pytest.raises(Exception, match=r'utility = "ridge" learns from synthetic images'),
    ):
        RIDGE.start(fleet)


def test_schedules_that_fit_the_rest_of_a_run() -> None:
    """The last plan covers fewer slots than the horizon, and visits may be fewer than `least`."""
    visible = [[1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]]
    with three(visible) as fleet:
        states = [FedSpace(horizon=4, least=3, most=9, candidates=3).start(fleet)]
        method = FedSpace(horizon=4, least=3, most=9, candidates=3)
        for t in range(5):
            states.append(method.round(states[-1], fleet.at(t)))
    assert states[1]["schedule"].tolist() == [True, False, True, False]
    assert states[5]["schedule"].tolist() == [True, False, False, False]
    assert [int(s["version"]) for s in states] == [0, 0, 0, 1, 1, 2]
