"""The suite that every method must pass."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedorbit.fleet import Fleet, Ledger
from fedorbit.methods.base import Method, State
from fedorbit.simulation.world import World
from fedorbit.testing import worlds
from fedorbit.testing.playing import (
    Snapshot,
    blanked_messages,
    counted_messages,
    linked_nodes,
    play,
    reached,
    reloaded,
    snapshots,
)


def assert_same(first: State, second: State) -> None:
    """Check that two states are equal to the last bit."""
    assert first.keys() == second.keys()
    for key in first:
        assert first[key].dtype == second[key].dtype, key
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)


def assert_alike(first: Snapshot, second: Snapshot) -> None:
    """Check that two snapshots are equal to the last bit."""
    assert first.round == second.round
    assert_same(first.state, second.state)
    assert first.world == second.world
    assert_same(first.arrays, second.arrays)


def differ(first: Snapshot, second: Snapshot) -> bool:
    """Return whether anything has learned another model, also if it is still under way."""
    return any(
        not np.array_equal(one[key], other[key])
        for one, other in ((first.state, second.state), (first.arrays, second.arrays))
        for key in one.keys() & other.keys()
    )


def assert_sound(method: Method, states: list[State], world: World) -> None:
    """Check that all that the method serves have a finite model after every round."""
    satellites, orbits = len(world.partition.train), world.schedule.orbits
    rows = {"everyone": 1, "orbit": orbits, "satellite": satellites}[method.serves]
    for state in states:
        models = method.models(state)
        assert models.shape == (rows, world.spec.layout.size)
        assert models.dtype == np.float32
        assert np.isfinite(models).all()


def nodes_served(method: Method, fleet: Fleet) -> list[set[int]]:
    """Return, for each row of `models`, the nodes that hold it: any of them makes it known."""
    if method.serves == "everyone":
        return [set(fleet.servers)]
    if method.serves == "satellite":
        return [{satellite} for satellite in range(fleet.satellites)]
    by_orbit = fleet.orbit_of_satellite
    return [set(np.flatnonzero(by_orbit == orbit).tolist()) for orbit in range(fleet.orbits)]


class MethodConformance:
    """Set `method` in a subclass."""

    method: ClassVar[Method]
    uses_links: ClassVar[bool] = True
    """False for references that do not federate, such as a centralised model."""
    uses_ground: ClassVar[bool] = True
    """False for methods without a server, whose models go from satellite to satellite."""
    sends_by_routes_alone: ClassVar[bool] = False
    """True for a method that sends only what a route takes to its end: losses to come are known."""
    backend: ClassVar[str] = "auto"
    """Training backend; a suite with "torch" runs without the C kernel."""
    model: ClassVar[dict[str, Any] | None] = None
    """The table `[model]` of the configuration; None: lenet."""
    joins_in: ClassVar[int] = 5
    """Round, of six, in which a satellite joins; earlier if a model has to reach it first."""

    def world(self, visible: NDArray[np.bool_] = worlds.PATTERN, **changes: Any) -> World:
        """Return a small world for this suite, which others share: worlds never change."""
        return worlds.shared_world(visible, backend=self.backend, model=self.model, **changes)

    def test_is_deterministic(self) -> None:
        """The same configuration gives the same bits."""
        for mode in worlds.MODES:
            world = self.world(**mode)
            again = worlds.small_world(backend=self.backend, model=self.model, **mode)
            first, second = (play(self.method, each) for each in (world, again))
            assert_same(first[-1], second[-1])
            assert_sound(self.method, first, world)

    def test_learns(self) -> None:
        """Some orbit's model changes in a world with contacts."""
        for mode in worlds.MODES:
            states = play(self.method, self.world(**mode))
            first, last = (self.method.models(states[i]) for i in (0, -1))
            assert not np.array_equal(first, last), mode

    def test_workers_change_nothing(self) -> None:
        """One, two or three threads give the same bits."""
        world = self.world()
        alone = play(self.method, world)
        for workers in (2, 3):
            for one, several in zip(alone, play(self.method, world, workers), strict=True):
                assert_same(one, several)

    def test_resumes_from_any_round(self) -> None:
        """A state saved and loaded, with mail and jobs under way, leads to the same bits."""
        self.check_resuming(self.world())

    def test_resumes_with_aggregations_under_way(self) -> None:
        """Aggregations that orbits have begun and not completed are kept."""
        for mode in worlds.ROUTED:
            self.check_resuming(self.world(**mode))

    def test_resumes_over_slow_links(self) -> None:
        """Messages that take longer than a contact, and those that wait for them, are kept.

        Methods that send no single messages have none.
        """
        world = self.world(model_s=450.0)
        if any("contact_s" in snapshot.world for snapshot in snapshots(self.method, world)):
            self.check_resuming(world)

    def check_resuming(self, world: World) -> None:
        """Compare a run with those that begin from each of its snapshots, saved and loaded.

        Each must lead to the next one, so one round of each is enough. The one in the middle is
        played to the end: what is in memory then is neither all nor nothing.
        """
        played = snapshots(self.method, world)
        assert_alike(reloaded(played[-1]), played[-1])
        for snapshot in played[:-1]:
            is_middle = snapshot.round == world.schedule.rounds // 2
            until = world.schedule.rounds if is_middle else snapshot.round + 1
            again = snapshots(self.method, world, resume=reloaded(snapshot), until=until)
            for one, other in zip(again[1:], played[snapshot.round + 1 :], strict=False):
                assert_alike(one, other)

    def test_does_not_change_what_it_is_given(self) -> None:
        """A round returns a new state and leaves the old one alone."""
        world = self.world()
        with worlds.fleet_of(world) as fleet:
            state = self.method.start(fleet)
            for t in range(world.schedule.rounds):
                before = {key: value.copy() for key, value in state.items()}
                after = self.method.round(state, fleet.at(t))
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
        world = self.world(worlds.PATTERN[:, :1])
        assert_sound(self.method, play(self.method, world), world)

    def test_a_single_class(self) -> None:
        """One class alone is no reason to fail."""
        world = self.world(classes=1)
        assert_sound(self.method, play(self.method, world), world)

    def test_no_orbit_is_ever_visible(self) -> None:
        """Without any contact nothing reaches the ground, and nothing breaks."""
        for mode in worlds.MODES:
            world = self.world(np.zeros((3, 3), dtype=bool), **mode)
            with worlds.fleet_of(world) as fleet:
                state = self.method.start(fleet)
                for t in range(3):
                    state = self.method.round(state, fleet.at(t))
                assert fleet.ledger.to_ground_bytes == fleet.ledger.from_ground_bytes == 0
                assert_sound(self.method, [state], world)

    def test_all_orbits_are_always_visible(self) -> None:
        """With contacts all the time, ideal and causal links are the same."""
        always = np.ones((3, 3), dtype=bool)
        ideal, causal = (
            play(self.method, self.world(always, links=links)) for links in ("ideal", "causal")
        )
        for one, other in zip(ideal, causal, strict=True):
            assert_same(one, other)

    def test_causal_links_are_respected(self) -> None:
        """No model moves without a contact (`LinkError` otherwise), and none is booked so."""
        self.check_links(self.world(links="causal"))

    def test_physical_links_are_respected(self) -> None:
        """The same where satellites of an orbit have links at times only, or none."""
        for mode in worlds.ROUTED:
            ledger = self.check_links(self.world(**mode))
            if mode["isl"] == "none":
                assert ledger.isl_bytes == 0

    def check_links(self, world: World) -> Ledger:
        """Play to the end in a world in which nothing may move without a link."""
        with worlds.fleet_of(world) as fleet:
            state = self.method.start(fleet)
            for t in range(world.schedule.rounds):
                state = self.method.round(state, fleet.at(t))
            assert fleet.ledger.unlinked_bytes == 0
            if self.uses_links and self.uses_ground:
                assert fleet.ledger.to_ground_bytes > 0
        assert_sound(self.method, [state], world)
        return fleet.ledger

    def test_bytes_are_those_of_the_messages(self) -> None:
        """Every kind of link has carried what was sent over it, no more and no less."""
        for mode, events in product(worlds.MODES, ((), worlds.EVENTS)):
            with counted_messages() as counts:
                last = snapshots(self.method, self.world(events=events, **mode))[-1]
            ledger = last.world["ledger"]
            for kind, sent in counts.items():
                booked = ledger[f"{kind}_bytes"]
                assert booked == sent, f"{kind}: {booked} bytes booked, {sent} sent"
            by_ends = sum(size_bytes for *_, size_bytes in ledger["transfers"])
            assert by_ends == sum(ledger[f"{d}_bytes"] for d in ("to_ground", "from_ground", "isl"))

    def test_news_travel_over_links_only(self) -> None:
        """An update of a satellite reaches another node no earlier than there is a path.

        From every round on, one satellite trains on other images. Models of nodes that no path
        leads to must be the same as without the change, to the bit. This follows the information
        itself, whatever a method books or forgets to book.
        """
        if self.uses_links:
            self.check_news(self.world(links="causal"))

    def test_news_travel_over_routes_only(self) -> None:
        """The same where satellites of an orbit have links at times only, or none."""
        if self.uses_links:
            for mode in worlds.ROUTED:
                self.check_news(self.world(**mode))
            # Clients that meet no station and have no mate that does may have no effect here.
            self.check_news(self.world(**worlds.SPARSE), has_effect=False)

    def test_servers_without_a_link_to_the_first_relay_only(self) -> None:
        """Models that they have received reach the first only if a satellite takes them there."""
        if self.uses_links:
            world = self.world(**worlds.APART)
            self.check_links(world)
            self.check_news(world, has_effect=False)

    def check_news(self, world: World, has_effect: bool = True) -> None:
        """Change the images of a satellite and see where, and when, models begin to differ."""
        played, had_effect = snapshots(self.method, world), not has_effect
        with worlds.fleet_of(world) as fleet:
            rows, linked = nodes_served(self.method, fleet), linked_nodes(fleet)
        for satellite in self.with_most_samples(world):
            changed = worlds.with_inverted_images(world, [satellite])
            for begin in range(worlds.ROUNDS):
                unknowns = [
                    [row for row, nodes in enumerate(rows) if not nodes & known]
                    for known in reached(fleet, satellite, begin, linked)
                ]
                # Once all may know, there is nothing to compare, then and later.
                until = begin + sum(map(bool, unknowns)) if had_effect else worlds.ROUNDS
                resume = reloaded(played[begin])
                altered = snapshots(self.method, changed, resume=resume, until=until)
                for unknown, other in zip(unknowns, altered[1:], strict=False):
                    true = played[other.round]
                    np.testing.assert_array_equal(
                        self.method.models(true.state)[unknown],
                        self.method.models(other.state)[unknown],
                        err_msg=f"round {other.round - 1}: models {unknown} ({self.method.serves}) "
                        f"know what satellite {satellite} learns since round {begin}",
                    )
                    had_effect |= differ(true, other)
        assert had_effect, "the change of images must have had an effect at all"

    def test_news_travel_in_messages_only(self) -> None:
        """An update of a satellite reaches others in the messages that it sends alone.

        What the satellites of its orbit send is replaced by values of the first model. Then no
        change of its images may reach another node, except in an exchange within the orbit. A
        method that sends a few values and takes the others from its state is caught.
        """
        if self.uses_links:
            for mode in worlds.LINKED:
                self.check_messages(self.world(**mode))

    def check_messages(self, world: World) -> None:
        """Blank what an orbit sends, and see whether others still learn of a change in it."""
        with worlds.fleet_of(world) as fleet:
            rows = nodes_served(self.method, fleet)
        for orbit, satellite in enumerate(self.with_most_samples(world)):
            changed = worlds.with_inverted_images(world, [satellite])
            with blanked_messages(orbit, world.initial_model) as exchanges:
                played, altered = (snapshots(self.method, one) for one in (world, changed))
            known = set(worlds.members(world, orbit)) if exchanges else {satellite}
            unknown = [row for row, nodes in enumerate(rows) if not nodes & known]
            for true, other in zip(played, altered, strict=True):
                np.testing.assert_array_equal(
                    self.method.models(true.state)[unknown],
                    self.method.models(other.state)[unknown],
                    err_msg=f"round {other.round - 1}: models {unknown} ({self.method.serves}) "
                    f"know what satellite {satellite} learns, and no message holds it",
                )

    def with_most_samples(self, world: World) -> Iterator[int]:
        """One satellite of each orbit."""
        for orbit in range(world.schedule.orbits):
            yield max(worlds.members(world, orbit), key=lambda k: len(world.partition.train[k]))

    # --- Constellations that change -----------------------------------------------------------

    def test_resumes_across_events(self) -> None:
        """Effects of an event follow from the round alone, not from a memory of it."""
        for mode in worlds.MODES:
            self.check_resuming(self.world(events=worlds.EVENTS, **mode))

    def test_what_will_happen_changes_nothing_before(self) -> None:
        """Up to an event models are the same as without it, and with ideal links the whole state.

        A method may note that a message will not arrive: contacts and routes are those as flown.
        """
        event = {"round": 3, "kind": "leave", "orbit": 1}
        for mode in worlds.MODES:
            if mode in worlds.ROUTED and self.sends_by_routes_alone:
                continue
            with_event, without = (
                play(self.method, self.world(events=e, **mode), until=3) for e in ((event,), ())
            )
            for one, other in zip(with_event, without, strict=True):
                if mode["links"] == "ideal":
                    assert_same(one, other)
                np.testing.assert_array_equal(self.method.models(one), self.method.models(other))

    def test_a_satellite_that_is_away_trains_nothing(self) -> None:
        """The images of a satellite that joins late matter from then on and not before."""
        world = self.world()
        joining = max(worlds.members(world, 0), key=lambda k: len(world.partition.train[k]))
        self.check_secrecy(
            [joining], {"round": self.joins_in, "kind": "join", "satellite": joining}
        )

    def test_an_orbit_that_is_away_trains_nothing(self) -> None:
        """The images of an orbit that joins in round 4 matter from then on and not before."""
        world = self.world()
        self.check_secrecy(worlds.members(world, 2), {"round": 4, "kind": "join", "orbit": 2})

    def check_secrecy(self, satellites: Sequence[int], join: dict[str, Any]) -> None:
        """Invert the images of satellites and see when models begin to differ."""
        for mode in worlds.MODES:
            world = self.world(events=[join], **mode)
            changed = worlds.with_inverted_images(world, satellites)
            true, altered = snapshots(self.method, world), snapshots(self.method, changed)
            for one, other in zip(true[: join["round"] + 1], altered, strict=False):
                assert_alike(one, other)
            # Over routes, what joins late may have no contact left in which it could matter.
            had_effect = differ(true[-1], altered[-1]) or mode in worlds.ROUTED
            assert had_effect, "the change must have had an effect at all"

    def test_survives_losses(self) -> None:
        """A satellite and an orbit, for a while or for ever, or all of them may be lost."""
        all_orbits = [{"round": 2, "kind": "leave", "orbit": orbit} for orbit in range(3)]
        events = (worlds.EVENTS[:2], worlds.EVENTS, all_orbits)
        for mode, happening in product(worlds.MODES, events):
            world = self.world(events=happening, **mode)
            assert_sound(self.method, play(self.method, world), world)

    def test_an_orbit_that_is_away_spends_nothing(self) -> None:
        """It trains no epoch, and no model moves without a contact."""
        world = self.world(links="causal", events=worlds.EVENTS)
        with worlds.fleet_of(world) as fleet:
            state, epochs = self.method.start(fleet), [0, 0, 0]
            for t in range(world.schedule.rounds):
                state = self.method.round(state, fleet.at(t))
                for orbit in {0, 1, 2} - set(fleet.at(t).orbits.active):
                    assert fleet.ledger.epochs[orbit] == epochs[orbit], f"round {t}"
                epochs = list(fleet.ledger.epochs)
            assert fleet.ledger.unlinked_bytes == 0

    # --- Hardware on board --------------------------------------------------------------------

    def test_a_clock_alone_changes_nothing(self) -> None:
        """Counting time on board does not change the result.

        Unless jobs are under way between rounds: a clock decides the order in which they end.
        """
        without = snapshots(self.method, self.world())
        if any(snapshot.world["jobs"] for snapshot in without):
            return
        with_clock = play(self.method, self.world(onboard={"samples_per_s": 1.0}))
        for one, other in zip(without, with_clock, strict=True):
            assert_same(one.state, other)

    def test_survives_scarce_power_and_time(self) -> None:
        """Satellites may have to cut their epochs, down to none, and nothing breaks."""
        scarce = (worlds.SCARCE_POWER, worlds.SCARCE_TIME)
        for onboard, mode in product(scarce, worlds.MODES):
            world = self.world(events=worlds.EVENTS, onboard=onboard, **mode)
            assert_sound(self.method, play(self.method, world), world)

    def test_without_power_nothing_is_trained(self) -> None:
        """With empty batteries no satellite trains, and no model changes."""
        if not self.uses_links:
            return
        empty = {"battery_wh": 1.0, "solar_w": 0.0, "training_w": 1.0, "initial_charge": 0.0}
        hardware = {"samples_per_s": 10.0, "energy": empty}
        played = snapshots(self.method, self.world(onboard=hardware))
        first, last = (self.method.models(played[i].state) for i in (0, -1))
        np.testing.assert_allclose(last, first, rtol=0, atol=1e-6)  # but for means of equals
        assert played[-1].world["onboard"]["done"] == 0

    def test_workers_change_nothing_when_power_is_short(self) -> None:
        """The number of threads decides neither what is trained nor what is left in batteries."""
        for onboard in (worlds.SCARCE_POWER, worlds.SCARCE_TIME):
            world = self.world(onboard=onboard)
            alone, several = (snapshots(self.method, world, workers) for workers in (1, 3))
            for one, other in zip(alone, several, strict=True):
                assert_alike(one, other)

    def test_resumes_when_power_is_short(self) -> None:
        """Charges are kept to the last bit."""
        for mode in worlds.MODES:
            onboard = {**worlds.SCARCE_POWER, "deadline": True}
            self.check_resuming(self.world(onboard=onboard, **mode))
