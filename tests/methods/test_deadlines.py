"""Methods with several phases in a round, where a deadline leaves little time: worked by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from fedorbit.fleet import Fleet, Needs
from fedorbit.hardware import Hardware
from fedorbit.methods import METHODS, Method, State, make_method
from fedorbit.methods.fedrep import FedRep
from fedorbit.methods.per_fedavg import PerFedAvg
from fedorbit.methods.scaffold import Scaffold
from fedorbit.testing import fleet_of, small_world

ALWAYS = np.ones((1, 1), dtype=bool)
HEAD = 84 * 4 + 4
"""Parameters of the last layer in the small world."""


@contextmanager
def hurried(
    method: Method, *, epochs: int, round_s: float, pass_s: float, exchange_s: float = 0.0
) -> Iterator[Fleet]:
    """Yield a fleet of two satellites in one orbit.

    A gradient of all samples of a satellite takes `pass_s`, an exchange of a model `exchange_s`.
    """
    world = small_world(ALWAYS)
    sizes = np.array([len(part) for part in world.partition.train])
    model_mbit = 32 * len(world.initial_model) / 1e6
    isl_mbps = 2 * model_mbit / exchange_s if exchange_s else None
    hardware = Hardware(sizes / pass_s, round_s, deadline=True, isl_mbps=isl_mbps)
    with fleet_of(replace(world, hardware=hardware), needs=method.needs) as fleet:
        fleet.plan = replace(fleet.plan, epochs=epochs)
        yield fleet


def played(fleet: Fleet, method: Method) -> tuple[State, float, int]:
    """Play a round; return the state, the seconds on board, and the epochs of each satellite."""
    state = method.round(method.start(fleet), fleet.at(0))
    assert fleet.onboard is not None
    fleet.onboard.begin(1)
    told = fleet.onboard.record()
    assert told["epochs_done"][0] % 2 == 0
    return state, told["onboard_s"][0], told["epochs_done"][0] // 2


@pytest.mark.parametrize(("round_s", "done"), [(100.0, 5), (99.0, 4), (60.0, 3), (40.0, 2)])
def test_fedrep_uses_all_the_time_for_its_unequal_halves(round_s: float, done: int) -> None:
    """Three epochs of the head and two of the body, 20 s each."""
    with hurried(FedRep(), epochs=5, round_s=round_s, pass_s=20.0) as fleet:
        assert played(fleet, FedRep())[1:] == (20.0 * done, done)


def test_fedrep_keeps_time_for_the_exchange_of_its_body() -> None:
    """Of 103 s, 60 s and less than a second are for the exchanges: an epoch of each half."""
    layout = small_world(ALWAYS).spec.layout
    body = layout.size - HEAD
    with hurried(
        FedRep(), epochs=5, round_s=103.0, pass_s=20.0, exchange_s=60.0 * layout.size / body
    ) as fleet:
        state, onboard_s, done = played(fleet, FedRep())
        moved = state["model"][0] != fleet.initial_model()
    assert moved[:body].any()
    assert moved[body:].any()
    assert done == 2
    assert onboard_s == pytest.approx(40.0 + 60.0 * layout.size / body, abs=1e-3)


@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"fedbn"}))  # of models with statistics
def test_no_shipped_method_is_late(name: str) -> None:
    """Whatever a round consists of, training leaves time for all exchanges of it."""
    method = make_method(name, {})
    with hurried(method, epochs=30, round_s=100.0, pass_s=2.0, exchange_s=7.0) as fleet:
        fleet.plan = replace(fleet.plan, intra_rounds=2)
        _, onboard_s, done = played(fleet, method)
    assert onboard_s <= 100.0 + 1e-6
    assert (done > 0) == (name != "centralised")  # which does not train on board


def test_scaffold_keeps_time_for_the_exchange_of_its_controls() -> None:
    """Of 100 s, 10 s are for the models and 10 s for the controls."""
    with hurried(Scaffold(), epochs=20, round_s=100.0, pass_s=10.0, exchange_s=10.0) as fleet:
        assert played(fleet, Scaffold())[1:] == (pytest.approx(100.0), 8)
        assert fleet.onboard is not None
        assert fleet.onboard.summary()["late_rounds"] == [0]
    alone = Scaffold(clients="orbit")  # exchanges no controls
    with hurried(alone, epochs=20, round_s=100.0, pass_s=10.0, exchange_s=10.0) as fleet:
        assert played(fleet, alone)[1:] == (pytest.approx(100.0), 9)


@pytest.mark.parametrize("more", [{}, {"adapt_steps": 3}, {"adapt_epochs": 2}])
def test_per_fedavg_keeps_time_for_its_adaptation(more: dict[str, int]) -> None:
    """Five epochs of two gradients each, and an exchange, would take all of the 101 s."""
    method = PerFedAvg(**more)
    with hurried(method, epochs=5, round_s=101.0, pass_s=10.0, exchange_s=1.0) as fleet:
        state, onboard_s, _ = played(fleet, method)
        assert onboard_s <= 101.0
        assert (state["received"][0] != fleet.initial_model()).any()
        assert (state["adapted"][0] != state["received"][0]).any()


def test_what_per_fedavg_needs() -> None:
    assert PerFedAvg().needs == Needs(passes=2, exchanged=2, batches=1)
    assert PerFedAvg(variant="hf", adapt_steps=3).needs == Needs(4, exchanged=4, batches=3)
    assert PerFedAvg(adapt_epochs=5).needs == Needs(passes=3, exchanged=2)
    assert PerFedAvg(alpha=0.0).needs == Needs()
    # An epoch takes 20 s, a batch of 16 samples less than 10 s, two exchanges 2 s.
    for round_s, is_able in ((22.0, False), (32.0, True)):
        with hurried(PerFedAvg(), epochs=1, round_s=round_s, pass_s=10.0, exchange_s=1.0) as fleet:
            assert bool(fleet.at(0).orbits.trainers(0)) == is_able
