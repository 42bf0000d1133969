"""Messages over routes, of parts, through channels, and over links with rates; all by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedorbit.errors import LinkError, ModelError
from fedorbit.fleet import Channel, Fleet
from fedorbit.randomness import generator
from fedorbit.testing import fleet_of, reloaded, small_world
from fedorbit.testing.playing import Snapshot
from tests.fleet.plans import planned

GROUND = 6


def numbers(fleet: Fleet) -> np.ndarray:
    return np.arange(fleet.layout.size, dtype=np.float32)


def bytes_of(fleet: Fleet) -> tuple[int, int, int, int]:
    """Bytes to the ground, from it, between satellites, and without a link."""
    ledger = fleet.ledger
    by_kind = ledger.to_ground_bytes, ledger.from_ground_bytes, ledger.isl_bytes
    return (*by_kind, ledger.unlinked_bytes)


# --- Routes -------------------------------------------------------------------------------------


def test_a_message_is_stored_and_forwarded() -> None:
    """From satellite 0 by its neighbour to the ground, and down to another orbit."""
    world = planned((1, 6, 650.0, 700.0), (3, 6, 0.0, 100.0), (3, 6, 1250.0, 1300.0))
    with fleet_of(world) as fleet:
        model, size = numbers(fleet), 4 * fleet.layout.size
        assert fleet.at(0).send(0, 2, model, route=[1, 6, 3], wait=True, hop="all") == 4
        booked = []
        for t in range(6):
            fleet.at(t)
            booked.append(tuple(b // size for b in bytes_of(fleet)))
            saved = reloaded(Snapshot(t + 1, {}, *fleet.saved()))
            fleet.restore(saved.world, saved.arrays)  # as if every slot were a resume
            assert len(fleet.at(t).inbox(2)) == (t == 4)
        # Slot 0: 0 to 1. Slot 2: 1 to the ground. Slot 4: the ground to 3, and 3 to 2.
        assert booked == [(0, 0, 1, 0), (0, 0, 1, 0), (1, 0, 1, 0), (1, 0, 1, 0),
                          (1, 1, 2, 0), (1, 1, 2, 0)]  # fmt: skip


def test_a_route_within_one_slot() -> None:
    with fleet_of(planned((1, 6, 50.0, 100.0), (3, 6, 0.0, 20.0))) as fleet:
        model, size = numbers(fleet), 4 * fleet.layout.size
        assert fleet.at(0).send(0, 2, model, route=(1, 6, 3)) == 0
        [mail] = fleet.at(0).inbox(2)
        assert (mail.source, mail.target, mail.arrival) == (0, 2, 0)
        np.testing.assert_array_equal(mail.payload, model)
        assert [fleet.at(0).inbox(relay) for relay in (1, 6, 3)] == [[], [], []]
        assert bytes_of(fleet) == (size, size, 2 * size, 0)
        with pytest.raises(LinkError, match=r"node 1 cannot send to node 6 in round 1: they have"):
            fleet.at(1).send(0, 2, model, route=(1, 6, 3))
        with pytest.raises(LinkError, match="no node 8"):
            fleet.at(0).send(0, 2, model, route=(1, 8, 3))
        assert bytes_of(fleet) == (size, size, 2 * size, 0)  # nothing moved


def test_a_route_that_leads_nowhere_moves_nothing() -> None:
    with fleet_of(planned((1, 6, 50.0, 100.0))) as fleet:
        assert fleet.at(1).send(0, 6, numbers(fleet), route=[1], wait=True) is None
        assert bytes_of(fleet) == (0, 0, 0, 0)
        assert fleet.saved()[0]["mail"] == []


def test_a_relay_that_is_away_holds_a_message_until_it_returns() -> None:
    events = [
        {"round": 2, "kind": "leave", "satellite": 1},
        {"round": 4, "kind": "join", "satellite": 1},
    ]
    with fleet_of(planned((1, 6, 700.0, 1400.0), events=events)) as fleet:
        assert fleet.at(0).send(0, 6, numbers(fleet), route=[1], wait=True) == 4
        with pytest.raises(LinkError, match=r"node 1 cannot receive in round 2: it is not active"):
            fleet.at(2).send(0, 6, numbers(fleet), route=[1])


def test_with_ideal_links_each_hop_is_counted_by_what_there_is() -> None:
    with fleet_of(planned((3, 6, 0.0, 20.0), links="ideal")) as fleet:
        size = 4 * fleet.layout.size
        assert fleet.at(0).send(0, 2, numbers(fleet), route=(1, 6, 3)) == 0
        assert bytes_of(fleet) == (0, size, 2 * size, size)  # 1 to the ground has no link


# --- Parts --------------------------------------------------------------------------------------


def test_only_the_values_of_a_part_travel() -> None:
    world = small_world(np.ones((2, 3), dtype=bool), links="causal")
    with fleet_of(world) as fleet:
        now, model, size = fleet.at(0), numbers(fleet), fleet.layout.size
        now.send(0, GROUND, model, part=slice(10, 30))
        assert fleet.ledger.to_ground_bytes == 80
        [mail] = now.inbox(GROUND)
        np.testing.assert_array_equal(mail.payload, np.arange(10, 30))
        assert (mail.part, mail.size) == (slice(10, 30), size)
        base = np.full(size, -1.0, dtype=np.float32)
        whole = mail.into(base)
        np.testing.assert_array_equal(whole[10:30], model[10:30])
        assert (whole[:10] == -1).all()
        assert (whole[30:] == -1).all()
        assert (base == -1).all()  # a copy
        with pytest.raises(ModelError, match=rf"20 of {size} values does not fit into .*\(3,\)"):
            mail.into(base[:3])


def test_a_mask_costs_a_bit_per_parameter_where_it_is_announced() -> None:
    world = small_world(np.ones((2, 3), dtype=bool), links="causal")
    with fleet_of(world) as fleet:
        model, size = numbers(fleet), fleet.layout.size
        mask = np.zeros(size, dtype=bool)
        mask[[0, 5, 7]] = True
        fleet.at(0).send(0, GROUND, model, part=mask)
        assert fleet.ledger.to_ground_bytes == 12
        fleet.at(0).send(1, GROUND, model, part=mask, announce=True)
        assert fleet.ledger.to_ground_bytes == 12 + 12 + -(-size // 8)
        fleet.at(0).send(0, 1, model, part=slice(0, 2), announce=True)  # ends cost nothing
        assert fleet.ledger.isl_bytes == 8
        mask[:] = False  # what was sent is sent
        saved = reloaded(Snapshot(1, {}, *fleet.saved()))
        assert len(saved.arrays) == 3  # the values and the mask of both, and those of the slice
    with fleet_of(world) as fleet:
        fleet.restore(saved.world, saved.arrays)
        for mail in fleet.at(1).inbox(GROUND):
            whole = mail.into(np.zeros(size, dtype=np.float32))
            assert np.flatnonzero(whole).tolist() == [5, 7]
            with pytest.raises(ValueError, match="read-only"):
                mail.part[0] = False
        [mail] = fleet.at(1).inbox(1)
        assert mail.part == slice(0, 2)


def test_a_message_without_a_part_replaces_everything() -> None:
    with fleet_of(small_world(links="causal")) as fleet:
        model = numbers(fleet)
        fleet.at(0).send(0, 1, model)
        [mail] = fleet.at(0).inbox(1)
        np.testing.assert_array_equal(mail.into(np.zeros_like(model)), model)
        with pytest.raises(ModelError, match="a mask must have one value per parameter"):
            fleet.at(0).send(0, 1, model, part=np.ones(3, dtype=bool))


# --- Channels -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quantised(Channel):
    """Rounds to whole steps; one byte per value, and the step."""

    step: float

    def carry(self, vector: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (np.round(vector / self.step) * self.step).astype(np.float32)

    def bytes(self, values: int) -> int:
        return values + 4


@dataclass(frozen=True)
class Noisy(Channel):
    """Adds noise."""

    deviation: float = 1.0

    def carry(self, vector: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return vector + rng.normal(0.0, self.deviation, vector.size).astype(np.float32)


def test_a_channel_decides_what_arrives_and_what_it_costs() -> None:
    with fleet_of(small_world(links="causal")) as fleet:
        model = np.array([0.1, 0.4, 1.2, -0.9], dtype=np.float32)
        fleet.at(0).send(0, GROUND, model, route=[1], channel=Quantised(0.5))
        [mail] = fleet.at(0).inbox(GROUND)
        np.testing.assert_array_equal(mail.payload, np.float32([0.0, 0.5, 1.0, -1.0]))
        assert bytes_of(fleet) == (8, 0, 8, 0)  # the relay forwards the same eight bytes
        fleet.at(0).send(0, GROUND, model, part=slice(1, 3), channel=Quantised(0.5))
        [mail] = fleet.at(0).inbox(GROUND)
        np.testing.assert_array_equal(mail.into(model), np.float32([0.1, 0.5, 1.0, -0.9]))
        assert bytes_of(fleet) == (8 + 6, 0, 8, 0)


def test_noise_belongs_to_its_message() -> None:
    """Keyed by slot, source, target and number, whatever else is sent, and over a resume."""
    world = small_world(np.ones((3, 3), dtype=bool), links="causal", seed=7)
    zero = np.zeros(5, dtype=np.float32)

    def drawn(t: int, source: int, number: int) -> np.ndarray:
        rng = generator(7, "channel", t, source, GROUND, number)
        return rng.normal(0.0, 1.0, 5).astype(np.float32)

    with fleet_of(world) as fleet:
        for source in (0, 2, 0):
            fleet.at(1).send(source, GROUND, zero, channel=Noisy())
        first, second, third = (mail.payload for mail in fleet.at(1).inbox(GROUND))
        np.testing.assert_array_equal(first, drawn(1, 0, 0))
        np.testing.assert_array_equal(second, drawn(1, 2, 0))
        np.testing.assert_array_equal(third, drawn(1, 0, 1))
        saved = reloaded(Snapshot(2, {}, *fleet.saved()))
        fleet.restore(saved.world, saved.arrays)
        fleet.at(2).send(0, GROUND, zero, channel=Noisy())
        np.testing.assert_array_equal(fleet.at(2).inbox(GROUND)[0].payload, drawn(2, 0, 0))
    assert not zero.any()


@dataclass(frozen=True)
class Broken(Channel):
    """Returns what does not fit."""

    def carry(self, vector: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return vector[:2].astype(np.float64)


@dataclass(frozen=True)
class Uncountable(Channel):
    """Costs half a byte."""

    def bytes(self, values: int) -> int:
        return 0.5


def test_channels_that_cannot_be_used_are_refused() -> None:
    with fleet_of(small_world(links="causal")) as fleet:
        model = np.zeros(4, dtype=np.float32)
        with pytest.raises(
            ModelError,
            match=r"Broken.carry must return a vector of 4 values of float32, got .*float64 .*2,",
        ):
            fleet.at(0).send(0, GROUND, model, channel=Broken())
        with pytest.raises(ModelError, match=r"Uncountable.bytes must return a whole .* got 0.5"):
            fleet.at(0).send(0, GROUND, model, channel=Uncountable())
        assert bytes_of(fleet) == (0, 0, 0, 0)


# --- Rates --------------------------------------------------------------------------------------


def kilobits(count: float) -> np.ndarray:
    """A vector that takes so many seconds at 1 kbit/s."""
    return np.zeros(int(count * 1000 / 32), dtype=np.float32)


SLOW = {"to_ground_mbps": 0.001, "from_ground_mbps": 0.002}
PASSES = ((0, 6, 100.0, 180.0), (0, 6, 250.0, 320.0), (0, 6, 900.0, 1000.0))
"""Seconds of contact in slots 0 to 3: 80 + 50, 20, 0 and 100."""


def test_messages_share_the_seconds_of_a_contact() -> None:
    with fleet_of(planned(*PASSES, rates=SLOW)) as fleet:
        now = fleet.at(0)
        assert now.transfer_s(0, 6, 2500) == 80.0
        assert now.transfer_s(6, 0, 2500) == 40.0
        assert now.transfer_s(0, 1, 2500) == now.transfer_s(6, 7, 2500) == 0.0
        assert now.send(0, 6, kilobits(80)) == 0  # 50 s are left
        assert now.send(6, 0, kilobits(80)) == 0  # twice as fast: 10 s are left
        with pytest.raises(
            LinkError,
            match=r"node 0 cannot send to node 6 in round 0: the message needs 12.0 s, and the "
            r"contact has 10.0 s left; send with wait=True",
        ):
            now.send(0, 6, kilobits(12))
        assert now.send(0, 6, kilobits(10)) == 0  # what was refused took nothing
        with pytest.raises(LinkError, match=r"needs 1.0 s, and the contact has 0.0 s left"):
            now.send(0, 6, kilobits(1))
        with pytest.raises(LinkError, match=r"node 0 cannot send to node 6 in round 2: they have"):
            fleet.at(2).send(0, 6, kilobits(1))


def test_what_does_not_fit_continues_in_the_next_contact() -> None:
    world = planned(*PASSES, rates=SLOW)
    with fleet_of(world) as fleet:
        now = fleet.at(0)
        assert now.send(0, 6, kilobits(140), wait=True) == 1  # 130 s, and 10 of the next 20
        assert now.send(0, 6, kilobits(15), wait=True) == 3  # 10 s, and 5 of 100
        assert now.send(6, 0, kilobits(190), wait=True) == 3  # 95 s at twice the rate: all the rest
        assert now.send(0, 6, kilobits(1), wait=True) is None
        assert bytes_of(fleet) == (0, 0, 0, 0)
        saved = reloaded(Snapshot(1, {}, *fleet.saved()))
    with fleet_of(world) as fleet:
        fleet.restore(saved.world, saved.arrays)
        booked = []
        for t in range(1, 4):
            with pytest.raises(LinkError):  # nor is there time for another after a resume
                fleet.at(t).send(0, 6, kilobits(1))
            booked.append(bytes_of(fleet)[:2])
        assert booked == [(17_500, 0), (17_500, 0), (17_500 + 1_872, 23_748)]
        fleet.at(4)
        assert "contact_s" not in fleet.saved()[0]  # over


def test_a_message_that_comes_later_may_use_time_before_one_that_waits() -> None:
    """A relay has its message from slot 3 on only; the seconds before are free."""
    rows = ((0, 6, 0.0, 100.0), (0, 6, 900.0, 1000.0), (0, 2, 930.0, 940.0))
    with fleet_of(planned(*rows, rates=SLOW)) as fleet:
        assert fleet.at(0).send(2, 6, kilobits(60), route=[0], wait=True) == 3
        assert fleet.at(0).send(0, 6, kilobits(100)) == 0
        assert fleet.at(0).send(0, 6, kilobits(41), wait=True) is None  # 40 s are left in slot 3
        assert fleet.at(0).send(0, 6, kilobits(40), wait=True) == 3


def test_a_route_over_one_link_twice_takes_its_time_twice() -> None:
    with fleet_of(planned((0, 6, 0.0, 100.0), rates=SLOW)) as fleet:
        with pytest.raises(LinkError, match=r"node 0 cannot .* needs 70.0 s, .* has 65.0 s left"):
            fleet.at(0).send(6, 6, kilobits(70), route=[0])  # 35 s down, 70 s up
        assert fleet.at(0).send(6, 6, kilobits(60), route=[0]) == 0


def test_ideal_links_carry_what_does_not_fit() -> None:
    with fleet_of(planned(*PASSES, rates=SLOW, links="ideal")) as fleet:
        assert fleet.at(0).send(0, 6, kilobits(200)) == 0
        assert bytes_of(fleet) == (0, 0, 0, 25_000)
        assert fleet.at(0).send(0, 6, kilobits(130)) == 0  # the other took no seconds
        assert bytes_of(fleet) == (16_248, 0, 0, 25_000)


def test_without_a_rate_a_message_takes_no_time() -> None:
    with fleet_of(planned(*PASSES, rates={"to_ground_mbps": 0.001})) as fleet:
        for _ in range(3):
            assert fleet.at(0).send(6, 0, kilobits(1000)) == 0
        assert fleet.at(0).send(0, 6, kilobits(130)) == 0
