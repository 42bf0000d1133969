"""What every method must stand: a suite to inherit, also for a method in your own file.

    from fedorbit.testing import MethodConformance

    class TestMyMethod(MethodConformance):
        method = MyMethod()

and run pytest. Each test runs real training on small synthetic images.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from fedorbit.config import Config
from fedorbit.learning.engine import LocalEngine
from fedorbit.methods.base import Method, State
from fedorbit.methods.fleet import Fleet
from fedorbit.simulation.world import World, build_world

ROUNDS = 6
PATTERN = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)
"""Who is in view in the small world: single orbits, pairs, nobody, and first contacts late."""
EVENTS: tuple[dict[str, Any], ...] = (
    {"round": 2, "kind": "leave", "satellite": 0},
    {"round": 3, "kind": "leave", "orbit": 1},
    {"round": 4, "kind": "join", "orbit": 2},
    {"round": 5, "kind": "join", "orbit": 1},
)
"""A satellite is lost, an orbit leaves and comes back, another is launched."""
SCARCE_POWER: dict[str, Any] = {
    "samples_per_s": 10.0,
    "speed_spread": 0.5,
    "energy": {"battery_wh": 0.006, "solar_w": 0.03, "training_w": 10.0, "initial_charge": 0.5},
}
"""Batteries for one or two epochs in the small world, some none; a sunlit round fills a third."""
SCARCE_TIME: dict[str, Any] = {"samples_per_s": 0.05, "speed_spread": 0.5, "deadline": True}
"""A round is long enough for an epoch or two, or for none on a satellite with many samples."""


OnBoard = tuple[State, dict[str, Any]]  # a method's state, and clocks and batteries


def small_world(
    visible: NDArray[np.bool_] = PATTERN,
    *,
    satellites_per_plane: int = 2,
    classes: int = 4,
    samples: int = 90,
    links: str = "ideal",
    seed: int = 0,
    backend: str = "auto",
    events: Sequence[dict[str, Any]] = (),
    onboard: dict[str, Any] | None = None,
) -> World:
    """Return a world small enough that a round takes a blink; who is away is never in view."""
    config = Config.model_validate(
        {
            "seed": seed,
            "constellation": {
                "planes": visible.shape[1],
                "satellites_per_plane": satellites_per_plane,
            },
            "schedule": {"rounds": len(visible)},
            "data": {"synthetic": {"classes": classes, "samples": samples, "size": 16}},
            "training": {"epochs": 1, "batch": 16},
            "run": {"rounds": len(visible), "links": links},
            "engine": {"backend": backend},
            "events": events,
            "onboard": onboard,
        }
    )
    world = build_world(config)
    return replace(world, schedule=replace(world.schedule, visible=visible & world.orbits_present))


@contextmanager
def fleet_of(world: World, workers: int = 1, models_trained: int = 1) -> Iterator[Fleet]:
    """Lend a fleet for a while."""
    engine = LocalEngine(world.trainer(), world.data, world.config.seed, workers)
    try:
        yield world.fleet(engine, models_trained)
    finally:
        engine.close()


def play(method: Method, world: World, workers: int = 1) -> list[State]:
    """Return the states before the first and after every round."""
    with fleet_of(world, workers) as fleet:
        states = [method.start(fleet)]
        for t in range(world.schedule.rounds):
            states.append(method.round(states[-1], t, fleet))
    return states


def play_on_board(
    method: Method, world: World, workers: int = 1, resume: OnBoard | None = None
) -> list[OnBoard]:
    """Return states with clocks and batteries before the first and after every round."""
    with fleet_of(world, workers, method.models_trained) as fleet:
        onboard = fleet.onboard
        assert onboard is not None, "the world must have hardware"
        played = [resume or (method.start(fleet), onboard.saved())]
        onboard.restore(played[0][1])
        for t in range(played[0][1]["round"], world.schedule.rounds):
            state = method.round(played[-1][0], t, fleet)
            onboard.begin(t + 1)
            played.append((state, onboard.saved()))
    return played


def with_inverted_images(world: World, satellites: Sequence[int]) -> World:
    """Return the world with other images on board of some satellites, to see who learns of it."""
    samples = np.concatenate([world.partition.train[satellite] for satellite in satellites])
    assert len(samples), "there must be images to invert"
    images = world.data.images.copy()
    images[samples] = 255 - images[samples]
    return replace(world, data=replace(world.data, images=images))


def members(world: World, orbit: int) -> list[int]:
    """Satellites of an orbit, whether they are there or not."""
    return np.flatnonzero(world.partition.orbit_of_satellite == orbit).tolist()


def assert_same(first: State, second: State) -> None:
    """Check that two states are equal to the last bit."""
    assert first.keys() == second.keys()
    for key in first:
        assert first[key].dtype == second[key].dtype, key
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)


def assert_sound(method: Method, states: list[State], world: World) -> None:
    """Check that every orbit has a finite model after every round."""
    for state in states:
        models = method.models(state)
        assert models.shape == (world.schedule.orbits, world.spec.layout.size)
        assert models.dtype == np.float32
        assert np.isfinite(models).all()


class MethodConformance:
    """Set `method` in a subclass."""

    method: ClassVar[Method]
    uses_links: ClassVar[bool] = True
    """False for references that do not federate, such as a centralised model."""
    backend: ClassVar[str] = "auto"
    """Who trains; a suite with "torch" runs without the C kernel."""

    def world(self, visible: NDArray[np.bool_] = PATTERN, **changes: Any) -> World:
        """Return a small world for this suite."""
        return small_world(visible, backend=self.backend, **changes)

    def test_is_deterministic(self) -> None:
        """The same configuration gives the same bits."""
        first, second = (play(self.method, self.world()) for _ in range(2))
        assert_same(first[-1], second[-1])
        assert_sound(self.method, first, self.world())

    def test_learns(self) -> None:
        """Some orbit's model changes in a world with contacts."""
        states = play(self.method, self.world())
        assert not np.array_equal(self.method.models(states[0]), self.method.models(states[-1]))

    def test_workers_change_nothing(self) -> None:
        """One, two or three threads give the same bits."""
        world = self.world()
        alone = play(self.method, world)
        for workers in (2, 3):
            for one, several in zip(alone, play(self.method, world, workers), strict=True):
                assert_same(one, several)

    def test_resumes_from_any_round(self) -> None:
        """A state that was saved and loaded goes on to the same bits."""
        self.check_resuming(self.world())

    def check_resuming(self, world: World) -> None:
        """Compare a run with those that begin from each of its states, saved and loaded."""
        states = play(self.method, world)
        for begin in range(len(states)):
            state: State = safetensors.numpy.load(safetensors.numpy.save(states[begin]))
            with fleet_of(world) as fleet:
                for t in range(begin, world.schedule.rounds):
                    state = self.method.round(state, t, fleet)
            assert_same(state, states[-1])

    def test_does_not_change_what_it_is_given(self) -> None:
        """A round returns a new state and leaves the old one alone."""
        world = self.world()
        with fleet_of(world) as fleet:
            state = self.method.start(fleet)
            for t in range(world.schedule.rounds):
                before = {key: value.copy() for key, value in state.items()}
                after = self.method.round(state, t, fleet)
                assert_same(state, before)
                self.method.models(after)
                state = after

    def test_survives_satellites_without_samples(self) -> None:
        """With hardly any data, satellites and whole orbits have nothing to train on."""
        world = self.world(satellites_per_plane=4, samples=12)
        assert any(len(part) == 0 for part in world.partition.train)
        assert_sound(self.method, play(self.method, world), world)

    def test_a_single_orbit(self) -> None:
        """One orbit is a federation too."""
        world = self.world(PATTERN[:, :1])
        assert_sound(self.method, play(self.method, world), world)

    def test_a_single_class(self) -> None:
        """Nothing to tell apart is no reason to fail."""
        world = self.world(classes=1)
        assert_sound(self.method, play(self.method, world), world)

    def test_nobody_is_ever_visible(self) -> None:
        """Without any contact nothing reaches the ground, and nothing breaks."""
        for links in ("ideal", "causal"):
            world = self.world(np.zeros((3, 3), dtype=bool), links=links)
            with fleet_of(world) as fleet:
                state = self.method.start(fleet)
                for t in range(3):
                    state = self.method.round(state, t, fleet)
                assert fleet.ledger.gs_uplink_bytes == fleet.ledger.gs_downlink_bytes == 0
                assert_sound(self.method, [state], world)

    def test_everybody_is_always_visible(self) -> None:
        """With contacts all the time, ideal and causal links are the same."""
        always = np.ones((3, 3), dtype=bool)
        ideal, causal = (
            play(self.method, self.world(always, links=links)) for links in ("ideal", "causal")
        )
        for one, other in zip(ideal, causal, strict=True):
            assert_same(one, other)

    def test_causal_links_are_respected(self) -> None:
        """No model moves without a contact (`LinkError` otherwise), and none is booked so."""
        world = self.world(links="causal")
        with fleet_of(world) as fleet:
            state = self.method.start(fleet)
            for t in range(world.schedule.rounds):
                state = self.method.round(state, t, fleet)
            assert fleet.ledger.unlinked_bytes == 0
            if self.uses_links:
                assert fleet.ledger.gs_uplink_bytes > 0
        assert_sound(self.method, [state], world)

    def test_nothing_is_learned_from_an_orbit_never_seen(self) -> None:
        """Changing the images of an orbit must not reach others before its first contact.

        This follows the information itself, whatever a method books or forgets to book.
        """
        if not self.uses_links:
            return
        world = self.world(links="causal")
        first_contact = int(np.argmax(PATTERN[:, 2]))
        changed = with_inverted_images(world, members(world, 2))
        true, altered = play(self.method, world), play(self.method, changed)
        for t in range(first_contact):
            ours, theirs = (self.method.models(states[t + 1]) for states in (true, altered))
            np.testing.assert_array_equal(ours[:2], theirs[:2], err_msg=f"round {t}")
        last = [self.method.models(states[-1])[2] for states in (true, altered)]
        assert not np.array_equal(*last), "the change of images must have had an effect at all"

    def test_nothing_reaches_an_orbit_out_of_view(self) -> None:
        """What an orbit in view learns must not reach those that are out of view since then.

        From every round on, one orbit in view trains on other images. Whoever is not in view from
        that round on must have the same model as without the change, to the bit.
        """
        if not self.uses_links:
            return
        world = self.world(links="causal")
        states = play(self.method, world)
        had_effect = False
        for begin, orbit in np.argwhere(PATTERN).tolist():
            changed = with_inverted_images(world, members(world, orbit))
            state = states[begin]
            with fleet_of(changed) as fleet:
                for t in range(begin, ROUNDS):
                    state = self.method.round(state, t, fleet)
                    true, altered = self.method.models(states[t + 1]), self.method.models(state)
                    unseen = np.flatnonzero(~PATTERN[begin : t + 1].any(axis=0))
                    np.testing.assert_array_equal(
                        true[unseen],
                        altered[unseen],
                        err_msg=f"round {t}: orbits out of view learn what orbit {orbit} does "
                        f"since round {begin}",
                    )
                    had_effect |= not np.array_equal(true[orbit], altered[orbit])
        assert had_effect, "the change of images must have had an effect at all"

    # --- Constellations that change -----------------------------------------------------------

    def test_resumes_across_events(self) -> None:
        """What an event changes follows from the round alone, not from who saw it happen."""
        for links in ("ideal", "causal"):
            self.check_resuming(self.world(links=links, events=EVENTS))

    def test_what_will_happen_changes_nothing_before(self) -> None:
        """Up to an event a run is the same as without it."""
        event = {"round": 3, "kind": "leave", "orbit": 1}
        with_event, without = (play(self.method, self.world(events=e)) for e in ([event], []))
        for one, other in zip(with_event[:4], without[:4], strict=True):
            assert_same(one, other)

    def test_a_satellite_that_is_away_trains_nothing(self) -> None:
        """The images of a satellite that joins in round 5 matter from then on and not before."""
        world = self.world()
        joining = max(members(world, 0), key=lambda k: len(world.partition.train[k]))
        self.check_secrecy([joining], {"round": 5, "kind": "join", "satellite": joining})

    def test_an_orbit_that_is_away_trains_nothing(self) -> None:
        """The images of an orbit that joins in round 4 matter from then on and not before."""
        world = self.world()
        self.check_secrecy(members(world, 2), {"round": 4, "kind": "join", "orbit": 2})

    def check_secrecy(self, satellites: Sequence[int], join: dict[str, Any]) -> None:
        """Invert the images of satellites and see when models begin to differ."""
        for links in ("ideal", "causal"):
            world = self.world(links=links, events=[join])
            changed = with_inverted_images(world, satellites)
            true, altered = play(self.method, world), play(self.method, changed)
            for one, other in zip(true[: join["round"] + 1], altered, strict=False):
                assert_same(one, other)
            ours, theirs = (self.method.models(states[-1]) for states in (true, altered))
            assert not np.array_equal(ours, theirs), "the change must have had an effect at all"

    def test_survives_losses(self) -> None:
        """A satellite, an orbit, or everybody may be lost."""
        everybody = [{"round": 2, "kind": "leave", "orbit": orbit} for orbit in range(3)]
        for links in ("ideal", "causal"):
            for events in (EVENTS[:1], EVENTS[1:2], EVENTS, everybody):
                world = self.world(links=links, events=events)
                assert_sound(self.method, play(self.method, world), world)

    def test_an_orbit_that_is_away_spends_nothing(self) -> None:
        """It trains no epoch, and no model moves without a contact."""
        world = self.world(links="causal", events=EVENTS)
        with fleet_of(world) as fleet:
            state, epochs = self.method.start(fleet), [0, 0, 0]
            for t in range(world.schedule.rounds):
                state = self.method.round(state, t, fleet)
                for orbit in {0, 1, 2} - set(fleet.present(t)):
                    assert fleet.ledger.epochs[orbit] == epochs[orbit], f"round {t}"
                epochs = list(fleet.ledger.epochs)
            assert fleet.ledger.unlinked_bytes == 0

    # --- Hardware on board --------------------------------------------------------------------

    def test_a_clock_alone_changes_nothing(self) -> None:
        """That time on board is counted is no reason for another result."""
        with_clock = play_on_board(self.method, self.world(onboard={"samples_per_s": 1.0}))
        for one, (other, _) in zip(play(self.method, self.world()), with_clock, strict=True):
            assert_same(one, other)

    def test_survives_scarce_power_and_time(self) -> None:
        """Satellites may have to cut their epochs, down to none, and nothing breaks."""
        for onboard, links in product((SCARCE_POWER, SCARCE_TIME), ("ideal", "causal")):
            world = self.world(links=links, events=EVENTS, onboard=onboard)
            assert_sound(self.method, [s for s, _ in play_on_board(self.method, world)], world)

    def test_nobody_has_power(self) -> None:
        """With empty batteries nobody trains, and nobody's model changes."""
        if not self.uses_links:
            return
        empty = {"battery_wh": 1.0, "solar_w": 0.0, "training_w": 1.0, "initial_charge": 0.0}
        hardware = {"samples_per_s": 10.0, "energy": empty}
        played = play_on_board(self.method, self.world(onboard=hardware))
        first, last = (self.method.models(played[i][0]) for i in (0, -1))
        np.testing.assert_allclose(last, first, rtol=0, atol=1e-6)  # but for means of equals
        assert played[-1][1]["done"] == 0

    def test_workers_change_nothing_when_power_is_short(self) -> None:
        """How many threads there are decides neither who trains nor what is left in batteries."""
        for world in (self.world(onboard=scarce) for scarce in (SCARCE_POWER, SCARCE_TIME)):
            alone, several = (play_on_board(self.method, world, w) for w in (1, 3))
            for (one, kept), (other, also_kept) in zip(alone, several, strict=True):
                assert_same(one, other)
                assert kept == also_kept

    def test_resumes_when_power_is_short(self) -> None:
        """Charges are kept to the last bit."""
        world = self.world(onboard={**SCARCE_POWER, "deadline": True})
        played = play_on_board(self.method, world)
        for state, kept in played:
            loaded: State = safetensors.numpy.load(safetensors.numpy.save(state))
            resume = loaded, json.loads(json.dumps(kept))
            after, kept_then = play_on_board(self.method, world, resume=resume)[-1]
            assert_same(after, played[-1][0])
            assert kept_then == played[-1][1]
