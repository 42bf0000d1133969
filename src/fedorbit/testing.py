"""What every method must stand: a suite to inherit, also for a method in your own file.

    from fedorbit.testing import MethodConformance

    class TestMyMethod(MethodConformance):
        method = MyMethod()

and run pytest. Each test runs real training on small synthetic images.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from fedorbit.config import Config
from fedorbit.learning.engine import Engine
from fedorbit.methods.base import Method, State
from fedorbit.methods.fleet import Fleet
from fedorbit.simulation.world import World, build_world

ROUNDS = 6
PATTERN = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)
"""Who is in view in the small world: single orbits, pairs, nobody, and first contacts late."""


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
        }
    )
    world = build_world(config)
    return replace(world, schedule=replace(world.schedule, visible=visible & world.orbits_present))


@contextmanager
def fleet_of(world: World, workers: int = 1) -> Iterator[Fleet]:
    """Lend a fleet for a while."""
    engine = Engine(world.trainer(), world.data, world.config.seed, workers)
    try:
        yield world.fleet(engine)
    finally:
        engine.close()


def play(method: Method, world: World, workers: int = 1) -> list[State]:
    """Return the states before the first and after every round."""
    with fleet_of(world, workers) as fleet:
        states = [method.start(fleet)]
        for t in range(world.schedule.rounds):
            states.append(method.round(states[-1], t, fleet))
    return states


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
        world = self.world()
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
        secret = np.concatenate(
            [
                world.partition.train[k]
                for k in np.flatnonzero(world.partition.orbit_of_satellite == 2)
            ]
        )
        images = world.data.images.copy()
        images[secret] = 255 - images[secret]
        changed = replace(world, data=replace(world.data, images=images))
        true, altered = play(self.method, world), play(self.method, changed)
        for t in range(first_contact):
            ours, theirs = (self.method.models(states[t + 1]) for states in (true, altered))
            np.testing.assert_array_equal(ours[:2], theirs[:2], err_msg=f"round {t}")
        last = [self.method.models(states[-1])[2] for states in (true, altered)]
        assert not np.array_equal(*last), "the change of images must have had an effect at all"
