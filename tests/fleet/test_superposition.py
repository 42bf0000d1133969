"""Transmissions that add up: the mean, its noise, the choice of satellites, links and bytes."""

from collections.abc import Mapping
from itertools import chain, combinations

import numpy as np
import pytest

from fedorbit.errors import LinkError, ModelError
from fedorbit.fleet import Signal, Superposed
from fedorbit.fleet.superposition import superposed
from fedorbit.randomness import generator
from fedorbit.testing import fleet_of, small_world
from tests.fleet.plans import planned

SIZE = 2000
WITHOUT_NOISE = 1e100


def vectors(count: int, size: int = SIZE) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(0.2, 1.0 + k, size).astype(np.float32) for k in range(count)]


def receive(signals: Mapping[int, Signal], seed: int = 0, mu: float = 0.0) -> Superposed:
    return superposed(signals, mu, 100.0, generator(seed, "test"))


def errors(signals: Mapping[int, Signal], seeds: int = 100) -> np.ndarray:
    """Noise of every seed and value."""
    exact = receive({k: signal._replace(snr=WITHOUT_NOISE) for k, signal in signals.items()}).mean
    return np.array([receive(signals, seed).mean - exact for seed in range(seeds)])


def test_without_noise_the_weighted_mean_arrives() -> None:
    a, b = vectors(2)
    received = receive({4: Signal(a, 1.0, WITHOUT_NOISE), 2: Signal(b, 3.0, WITHOUT_NOISE)})
    np.testing.assert_allclose(received.mean, 0.25 * a + 0.75 * b, atol=1e-6)
    assert received.weight == 4.0
    assert received.sigma < 1e-40
    assert received.mean.dtype == np.float32


def test_noise_is_as_the_formula_says() -> None:
    a, b = vectors(2)
    signals = {0: Signal(a, 1.0, 4.0), 1: Signal(b, 3.0, 9.0)}  # levels 2 and 1
    d = np.concatenate((a, b)).std(dtype=np.float64)
    sigma = d / (1.0 * 4.0)
    assert receive(signals).sigma == pytest.approx(sigma)
    noise = errors(signals)
    # 200,000 values: the variance is known to 0.3 %, the mean to sigma / 447.
    assert noise.var() == pytest.approx(sigma**2, rel=0.015)
    assert abs(noise.mean()) < 5 * sigma / np.sqrt(noise.size)
    assert np.abs(noise.mean(axis=0)).max() < 5 * sigma / np.sqrt(len(noise))  # of each value
    power = np.square(0.25 * a.astype(float) + 0.75 * b).sum()
    assert receive(signals).distortion == pytest.approx(sigma**2 * SIZE / power)


def test_twice_the_signal_to_noise_ratio_halves_the_variance() -> None:
    [a] = vectors(1)
    once, twice = (errors({0: Signal(a, 2.0, snr)}) for snr in (5.0, 10.0))
    np.testing.assert_allclose(twice, once / np.sqrt(2), atol=1e-5)  # the same draws
    assert once.var() == pytest.approx(a.std(dtype=np.float64) ** 2 / 5.0, rel=0.015)


@pytest.mark.parametrize("count", [2, 5])
def test_the_variance_falls_with_the_square_of_the_number(count: int) -> None:
    [a] = vectors(1)
    alone, together = (
        errors({k: Signal(a, 3.0, 10.0) for k in range(number)}) for number in (1, count)
    )
    assert together.var() == pytest.approx(alone.var() / count**2, rel=1e-4)


def test_the_weakest_for_its_weight_decides() -> None:
    a, b = vectors(2)
    strong, weak = Signal(a, 1.0, 100.0), Signal(b, 1.0, 1.0)
    d = np.concatenate((a, b)).std(dtype=np.float64)
    assert receive({0: strong, 1: weak}).sigma == pytest.approx(d / 2.0)
    # A tenth of the weight needs a tenth of the amplitude.
    assert receive({0: strong, 1: weak._replace(weight=0.1)}).sigma == pytest.approx(d / 11.0)


def test_without_a_price_of_noise_all_transmit() -> None:
    signals = {k: Signal(v, 1.0, 10.0**-k) for k, v in enumerate(vectors(5))}
    assert set(receive(signals).satellites) == set(range(5))
    assert receive(signals, mu=1e6).satellites == (0,)  # one does, whatever the price


def of_many_strengths() -> dict[int, Signal]:
    """One update for all, so that |mean| and d are the same for all sets."""
    rng, [a] = np.random.default_rng(3), vectors(1)
    return {k: Signal(a, rng.uniform(1, 9), 10 ** rng.uniform(-5, 2)) for k in range(7)}


PRICES = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)


@pytest.mark.parametrize("mu", PRICES)
def test_the_best_prefix_is_the_best_of_all_sets(mu: float) -> None:
    signals = of_many_strengths()
    a = signals[0].vector.astype(float)

    def quality(chosen: tuple[int, ...]) -> float:
        weight = sum(signals[k].weight for k in chosen)
        level = min(np.sqrt(signals[k].snr) / signals[k].weight for k in chosen)
        return weight / 100.0 - mu * (a.std() / (level * weight)) ** 2 * SIZE / np.square(a).sum()

    sets = chain.from_iterable(combinations(signals, size) for size in range(1, 8))
    assert set(receive(signals, mu=mu).satellites) == set(max(sets, key=quality))


def test_the_higher_the_price_the_fewer_transmit() -> None:
    sizes = [len(receive(of_many_strengths(), mu=mu).satellites) for mu in PRICES]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


def test_updates_that_cancel_or_vanish() -> None:
    a = vectors(1)[0]
    nothing = {0: Signal(np.zeros_like(a), 1.0, 1.0)}
    assert receive(nothing, mu=1.0).sigma == receive(nothing, mu=1.0).distortion == 0.0
    opposed = {0: Signal(a, 1.0, 1.0), 1: Signal(-a, 1.0, 1.0)}
    assert receive(opposed, mu=1.0).satellites == (0,)
    assert receive(opposed).distortion == np.inf


# --- In the fleet -------------------------------------------------------------------------------


def test_links_bytes_and_time() -> None:
    """Satellite 0 until 200 s, satellite 2 from 150 s on: both for 50 s."""
    rates = {"from_ground_mbps": 1.0}
    with fleet_of(planned((0, 6, 0.0, 200.0), (2, 6, 150.0, 600.0), rates=rates)) as fleet:
        now, size = fleet.at(0), fleet.layout.size
        a, b = vectors(2, size)
        signals = {0: Signal(a, 1.0, WITHOUT_NOISE), 2: Signal(b, 1.0, WITHOUT_NOISE)}
        received = now.superpose(6, signals, at_s=150.0, seconds=50.0)
        np.testing.assert_allclose(received.mean, (a + b) / 2, atol=1e-6)
        assert fleet.ledger.to_ground_bytes == 4 * size  # one band, once
        halves = {(0, 3): (1, 2 * size), (1, 3): (1, 2 * size)}
        assert fleet.ledger.transfers == halves  # the two orbits share it
        taken = {(x["first"], x["slot"]): x["seconds"] for x in fleet.saved()[0]["contact_s"]}
        assert taken == {(0, 0): 50.0, (2, 0): 50.0}
        for at_s, k in ((149.0, 2), (151.0, 0), (-1.0, 0)):
            with pytest.raises(LinkError, match=rf"satellite {k} cannot transmit to node 6"):
                now.superpose(6, signals, at_s=at_s, seconds=50.0)
        with pytest.raises(LinkError, match="satellite 0 cannot transmit to node 7"):
            now.superpose(7, signals, at_s=150.0)
        with pytest.raises(LinkError, match="no server 5"):
            now.superpose(5, signals, at_s=150.0)
        with pytest.raises(LinkError, match=r"satellite 2 .* in round 1 from 150"):
            fleet.at(1).superpose(6, {2: signals[2]}, at_s=150.0)
        assert fleet.ledger.to_ground_bytes == 4 * size


def test_time_that_messages_take_is_not_there_for_a_transmission() -> None:
    """A contact of 200 s in slot 0 and 100 s in slot 1, of which a message takes 180 s."""
    world = planned((0, 6, 100.0, 400.0))
    seconds = {"to_ground_mbps": 32 * len(world.initial_model) / 1e6 / 180.0}
    with fleet_of(planned((0, 6, 100.0, 400.0), rates=seconds)) as fleet:
        now, [a] = fleet.at(0), vectors(1, fleet.layout.size)
        assert now.send(0, 6, a) == 0
        signals = {0: Signal(a, 1.0, WITHOUT_NOISE)}
        with pytest.raises(LinkError, match=r"for 21\.000 s: other messages take the time"):
            now.superpose(6, signals, at_s=150.0, seconds=21.0)
        now.superpose(6, signals, at_s=290.0, seconds=40.0)  # 10 s, and 30 s of the next slot
        taken = {x["slot"]: x["seconds"] for x in fleet.saved()[0]["contact_s"]}
        assert taken == {0: pytest.approx(190.0), 1: pytest.approx(30.0)}


def test_with_ideal_links_what_has_none_is_counted_apart() -> None:
    with fleet_of(planned((0, 6, 0.0, 200.0), links="ideal")) as fleet:
        [a] = vectors(1, fleet.layout.size)
        fleet.at(0).superpose(6, {3: Signal(a, 1.0, 1.0)}, at_s=0.0)
        assert fleet.ledger.to_ground_bytes == 0
        assert fleet.ledger.unlinked_bytes == 4 * fleet.layout.size


def test_noise_is_keyed_by_slot_and_server() -> None:
    world = small_world(np.ones((3, 3), dtype=bool))
    with fleet_of(world) as fleet:
        [a] = vectors(1, fleet.layout.size)
        signals, server = {0: Signal(a, 1.0, 1.0)}, fleet.servers[0]

        def noisy(t: int) -> np.ndarray:
            return fleet.at(t).superpose(server, signals, at_s=300.0 * t).mean

        first, second, later, again = noisy(0), noisy(0), noisy(1), noisy(0)
        expected = superposed(signals, 0.0, 1.0, generator(0, "aircomp", 0, server)).mean
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(first, again)
    assert len({x.tobytes() for x in (first, second, later)}) == 3


def test_what_cannot_be_added_up_is_refused() -> None:
    with fleet_of(planned((0, 6, 0.0, 200.0), (2, 6, 0.0, 200.0))) as fleet:
        now, a = fleet.at(0), np.ones(3, dtype=np.float32)
        good = Signal(a, 1.0, 1.0)
        for signals, why in (
            ({}, "needs the signal of one satellite"),
            ({0: good, 2: Signal(np.ones(4, dtype=np.float32), 1.0, 1.0)}, "3 values and 4 of"),
            ({0: good._replace(weight=0.0)}, "weight of satellite 0 must be finite and above 0"),
            ({0: good._replace(snr=np.inf)}, "snr of satellite 0 must be finite"),
            ({0: good._replace(vector=a.astype(float))}, "one flat vector of float32"),
        ):
            with pytest.raises(ModelError, match=why):
                now.superpose(6, signals, at_s=0.0)
