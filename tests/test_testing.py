"""The conformance suite itself: it must catch methods that learn what they cannot know."""

from typing import Any

import numpy as np
import pytest
from examples.fedsat_like import FedSatLike

from fedorbit.errors import LinkError
from fedorbit.fleet import Fleet, Now
from fedorbit.fleet.aggregation import Aggregations
from fedorbit.learning.parameters import Vector
from fedorbit.methods.airfl import AirFL
from fedorbit.methods.base import Method, State
from fedorbit.methods.ditto import Ditto
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.methods.steps import train_orbit
from fedorbit.testing import EVENTS, MethodConformance, fleet_of, small_world, snapshots
from fedorbit.testing.playing import counted_messages
from tests.methods.relays import RelaysParts


class UsesTheGroundsModel(FedAvg):
    """Infers with the newest global model wherever an orbit is."""

    def models(self, state: State) -> Vector:
        return np.tile(state["global"], (len(state["received"]), 1))


class StartsDarkOrbitsFromTheGround(FedAvg):
    """Trains orbits out of view from a global model that was never sent to them."""

    def round(self, state: State, now: Now) -> State:
        after = super().round(state, now)
        dark = set(now.orbits.active) - set(now.orbits.visible)
        programs = {orbit: train_orbit(now, orbit, state["global"]) for orbit in sorted(dark)}
        received = after["received"].copy()
        for orbit, model in now.run(programs).items():
            received[orbit] = model
        return {**after, "received": received}


@pytest.mark.parametrize("cheat", [UsesTheGroundsModel(), StartsDarkOrbitsFromTheGround()])
def test_news_from_the_ground_without_a_link_are_caught(cheat: FedAvg) -> None:
    suite = MethodConformance()
    suite.method = cheat
    suite.test_causal_links_are_respected()  # it books no transfer
    with pytest.raises(AssertionError, match=r"\(orbit\) know what satellite"):
        suite.test_news_travel_over_links_only()


def test_honest_methods_pass() -> None:
    suite = MethodConformance()
    suite.method = FedAvg()
    suite.test_news_travel_over_links_only()
    suite.test_news_travel_over_routes_only()


class UsesResultsUnderWay(FedAvg):
    """Reads results of cycles out of the world before they have ended."""

    def round(self, state: State, now: Now) -> State:
        after, received = super().round(state, now), state["received"]
        for name, array in sorted(now.fleet.saved()[1].items()):
            if name.startswith("orbit:") and array.shape == received[0].shape:
                return {**after, "received": np.tile(array, (len(received), 1))}
        return after


@pytest.mark.parametrize("cheat", [UsesTheGroundsModel(), UsesResultsUnderWay()])
def test_news_without_a_route_are_caught(cheat: FedAvg) -> None:
    suite = MethodConformance()
    suite.method = cheat
    suite.test_physical_links_are_respected()  # it books no transfer
    with pytest.raises(AssertionError, match=r"\(orbit\) know what satellite"):
        suite.test_news_travel_over_routes_only()


@pytest.mark.parametrize("method", [FedAvg(), FedOrbit(), Ditto()])
def test_aggregations_that_end_before_their_messages_arrive_are_caught(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(cycles: Aggregations, begin_s: float, *_: Any) -> float:
        return begin_s

    monkeypatch.setattr(Aggregations, "_end_s", at_once)
    suite = MethodConformance()
    suite.method = method
    with pytest.raises(AssertionError, match=r"\(orbit\) know what satellite"):
        suite.test_news_travel_over_routes_only()


def test_aggregations_beside_links_are_refused() -> None:
    suite = MethodConformance()
    suite.method = StartsDarkOrbitsFromTheGround()
    with pytest.raises(LinkError, match=r"run its program with now\.orbits\.run"):
        suite.test_physical_links_are_respected()


class UsesTheNewestModel(FedSatLike):
    """Infers with the newest model on satellites that have not received it."""

    def models(self, state: State) -> Vector:
        return np.tile(state["global"], (len(state["received"]), 1))


class ReadsTheMailOfOthers(FedSatLike):
    """Has satellites start from what is on its way to the ground."""

    def round(self, state: State, now: Now) -> State:
        after = super().round(state, now)
        for transfer in now.fleet.network._transfers:
            after["received"][:] = transfer.mail.payload
        return after


@pytest.mark.parametrize("cheat", [UsesTheNewestModel(), ReadsTheMailOfOthers()])
def test_news_of_satellites_without_a_path_are_caught(cheat: FedSatLike) -> None:
    suite = MethodConformance()
    suite.method = cheat
    suite.test_causal_links_are_respected()
    with pytest.raises(AssertionError, match=r"\(satellite\) know what satellite"):
        suite.test_news_travel_over_links_only()


class BooksWhatItDoesNotSend(FedAvg):
    """Pays for a model that it never sends."""

    def round(self, state: State, now: Now) -> State:
        now.fleet.ledger.book("isl", (0, 0), 1)
        return super().round(state, now)


def test_bytes_without_a_message_are_caught() -> None:
    suite = MethodConformance()
    suite.method = BooksWhatItDoesNotSend()
    with pytest.raises(AssertionError, match=r"isl: .* bytes booked"):
        suite.test_bytes_are_those_of_the_messages()


class BooksLessThanItSends(RelaysParts):
    """Takes back what it has paid for relays."""

    def round(self, state: State, now: Now) -> State:
        before = now.fleet.ledger.isl_bytes
        after = super().round(state, now)
        now.fleet.ledger.isl_bytes -= (now.fleet.ledger.isl_bytes - before) // 2
        return after


def test_messages_without_their_bytes_are_caught() -> None:
    suite = MethodConformance()
    suite.method = BooksLessThanItSends()
    with pytest.raises(AssertionError, match=r"isl: .* bytes booked, .* sent"):
        suite.test_bytes_are_those_of_the_messages()


def test_the_method_that_relays_uses_all_kinds_of_links() -> None:
    """The suite says nothing about links that no message passes over."""
    with counted_messages() as counts:
        played = snapshots(RelaysParts(), small_world(links="ideal", events=EVENTS))
    assert all(counts.values())
    waiting = [letter for snapshot in played for letter in snapshot.world["mail"]]
    assert any(len(letter["hops"]) and letter["part"] for letter in waiting)
    slow = snapshots(RelaysParts(), small_world(model_s=450.0))
    assert any("contact_s" in snapshot.world for snapshot in slow)


def test_a_message_without_the_time_for_it_is_counted_as_unlinked() -> None:
    """As the ledger does: the contact lasts 300 s, the message needs 450 s."""
    world = small_world(links="ideal", model_s=450.0)
    with fleet_of(world) as fleet, counted_messages() as counts:
        now = fleet.at(0)
        now.send(now.satellites_of()[0], now.servers[0], fleet.initial_model())
        assert counts["unlinked"] == fleet.ledger.unlinked_bytes == 4 * fleet.layout.size
        assert counts["to_ground"] == fleet.ledger.to_ground_bytes == 0


class SendsOneValueOfMany(RelaysParts):
    """Sends and pays for one value, and copies the rest from its state."""

    def round(self, state: State, now: Now) -> State:
        after = super().round(state, now)
        for k in now.satellites_of():
            now.send(k, now.servers[0], after["trained"][k], part=slice(0, 1))
            now.inbox(now.servers[0])
            after["global"] = after["trained"][k].copy()
        return after


def test_values_that_were_not_sent_are_caught() -> None:
    suite = MethodConformance()
    suite.method = SendsOneValueOfMany()
    suite.test_news_travel_over_links_only()  # there is a link
    suite.test_bytes_are_those_of_the_messages()  # and what was sent is booked
    with pytest.raises(AssertionError, match=r"learns, and no message holds it"):
        suite.test_news_travel_in_messages_only()


class RemembersBesideItsState(FedSatLike):
    """Keeps beside its state what a checkpoint does not know."""

    def start(self, fleet: Fleet) -> State:
        return {**super().start(fleet), "seen": np.array(0)}

    def round(self, state: State, now: Now) -> State:
        now.fleet.seen = getattr(now.fleet, "seen", 0) + 1
        return {**super().round(state, now), "seen": np.array(now.fleet.seen)}


def test_what_a_checkpoint_does_not_keep_is_caught() -> None:
    suite = MethodConformance()
    suite.method = RemembersBesideItsState()
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        suite.test_resumes_from_any_round()


class HearsMoreThanTheSum(AirFL):
    """Takes updates as they are on board, beside what was transmitted of them."""

    def _aggregate(self, s: State, now: Now, *instant: Any) -> None:
        on_board = s["update"].copy()
        super()._aggregate(s, now, *instant)
        s["global"] = s["global"] + (on_board - s["update"]).sum(axis=0)


def test_what_was_not_transmitted_is_caught() -> None:
    suite = MethodConformance()
    suite.method = HearsMoreThanTheSum()
    suite.test_bytes_are_those_of_the_messages()
    with pytest.raises(AssertionError, match="and no message holds it"):
        suite.test_news_travel_in_messages_only()


class TransmitsForNothing(AirFL):
    """Takes back what it has paid for transmissions."""

    def _aggregate(self, s: State, now: Now, *instant: Any) -> None:
        before = now.fleet.ledger.to_ground_bytes
        super()._aggregate(s, now, *instant)
        now.fleet.ledger.to_ground_bytes = before


def test_transmissions_without_their_bytes_are_caught() -> None:
    suite = MethodConformance()
    suite.method = TransmitsForNothing()
    with pytest.raises(AssertionError, match=r"to_ground: 0 bytes booked, .* sent"):
        suite.test_bytes_are_those_of_the_messages()
