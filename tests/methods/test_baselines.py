"""Baselines: identities between them, and one round worked by hand."""

from pathlib import Path

import numpy as np
import pytest

from fedorbit.errors import ConfigError, LinkError, ModelError
from fedorbit.learning.jobs import batch_order
from fedorbit.methods import Method, find_method, make_method
from fedorbit.methods.apfl import APFL
from fedorbit.methods.centralised import Centralised
from fedorbit.methods.ditto import Ditto
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fednova import FedNova
from fedorbit.methods.fedprox import FedProx
from fedorbit.methods.local import Local
from fedorbit.methods.pfedme import PFedMe
from fedorbit.methods.scaffold import Scaffold
from fedorbit.methods.steps import average_at_ground, train_orbit
from fedorbit.testing import PATTERN, assert_same, fleet_of, play, small_world
from fedorbit.user_code import allow_code
from tests.fleet.plans import planned
from tests.methods.quadratic import paired_orbits

# With PATTERN and causal links: one download to every orbit in view after averaging (7), and one
# before training to those whose model is not the newest: orbit 1 in round 2, orbit 2 in round 4,
# orbit 0 in round 5.
DOWNLOADS = 10


def test_one_fedavg_round_worked_by_hand() -> None:
    world = small_world(np.array([[1, 0, 1]], dtype=bool))
    trainer = world.trainer()
    with fleet_of(world) as fleet:
        w0, now = fleet.initial_model(), fleet.at(0)
        orbit_models = {}
        for orbit in (0, 2):
            total = np.zeros(len(w0))
            for job in now.orbits.jobs(orbit, w0, epochs=1, rate=0.01):
                w_k = trainer.train(job, batch_order(world.data, job, 0)).model
                total += now.samples[job.satellite] * w_k.astype(float)
            orbit_models[orbit] = total / now.orbits.samples[orbit]
        n = now.orbits.samples
        expected = (n[0] * orbit_models[0] + n[2] * orbit_models[2]) / (n[0] + n[2])
        state = FedAvg().round(FedAvg().start(fleet), fleet.at(0))
    np.testing.assert_allclose(state["global"], expected, atol=1e-7)
    np.testing.assert_array_equal(FedAvg().models(state), np.tile(state["global"], (3, 1)))


def test_fedprox_with_mu_0_is_fedavg() -> None:
    world = small_world()
    for one, other in zip(play(FedAvg(), world), play(FedProx(mu=0.0), world), strict=True):
        assert_same(one, other)
    pulled = play(FedProx(mu=5.0), world)[-1]["global"]
    free = play(FedAvg(), world)[-1]["global"]
    start = world.initial_model
    assert np.linalg.norm(pulled - start) < np.linalg.norm(free - start)


def test_ditto_and_apfl_train_fedavg_in_parallel() -> None:
    world = small_world()
    fedavg = play(FedAvg(), world)[-1]["global"]
    np.testing.assert_array_equal(play(Ditto(), world)[-1]["global"], fedavg)
    np.testing.assert_allclose(play(APFL(), world)[-1]["global"], fedavg, atol=1e-6)


def test_ditto_without_pull_is_local_with_other_batches() -> None:
    world = small_world()
    free = play(Ditto.model_validate({"lambda": 0.0}), world)[-1]
    with fleet_of(world) as fleet:
        alone = np.tile(fleet.initial_model(), (3, 1))
        for t in range(6):
            now = fleet.at(t)
            for orbit in now.orbits.visible:
                program = train_orbit(now, orbit, alone[orbit], purpose=1)
                alone[orbit] = now.run({orbit: program})[orbit]
    np.testing.assert_array_equal(free["personal"], alone)
    strong = play(Ditto.model_validate({"lambda": 50.0}), world)[-1]
    distance = [np.linalg.norm(s["personal"][0] - s["received"][0]) for s in (strong, free)]
    assert distance[0] < distance[1]


def test_apfl_keeps_alpha_in_bounds_and_mixes() -> None:
    world = small_world()
    state = play(APFL(), world)[-1]
    assert ((state["alpha"] >= 0) & (state["alpha"] <= 1)).all()
    assert (state["alpha"] != 0.5).any()
    alpha = state["alpha"][1]
    np.testing.assert_allclose(
        APFL().models(state)[1],
        alpha * state["own"][1] + (1 - alpha) * state["received"][1],
        atol=1e-6,
    )


def test_an_orbit_out_of_view_changes_in_none_of_the_baselines() -> None:
    world = small_world()
    for method in (Local(), Ditto(), APFL()):
        states = play(method, world)
        own = {"own", "personal"} & states[0].keys()
        for key in own:
            for t in range(6):
                for orbit in np.flatnonzero(~PATTERN[t]):
                    np.testing.assert_array_equal(states[t][key][orbit], states[t + 1][key][orbit])


def test_with_causal_links_orbits_use_what_they_received_last() -> None:
    states = play(FedAvg(), small_world(links="causal"))
    received = states[-1]["received"]
    # Orbit 1 was in view in rounds 2 and 4, orbits 0 and 2 in the last: PATTERN.
    np.testing.assert_array_equal(received[1], states[5]["global"])
    np.testing.assert_array_equal(received[0], states[6]["global"])
    assert not np.array_equal(received[1], received[0])


def test_moving_a_model_without_a_contact_raises() -> None:
    with fleet_of(small_world(links="causal")) as fleet:
        model = fleet.initial_model()
        fleet.at(0).orbits.upload(0, model)
        with pytest.raises(LinkError, match=r"orbit 1 cannot upload its model in round 0"):
            fleet.at(0).orbits.upload(1, model)
        with pytest.raises(LinkError, match=r"orbit 2 cannot receive a model in round 3"):
            fleet.at(3).orbits.download(2, model)
        assert fleet.at(2).orbits.reachable == [0, 1]


def test_centralised_trains_on_everything_every_round() -> None:
    world = small_world()
    with fleet_of(world) as fleet:
        state = Centralised(epochs=3).round(Centralised().start(fleet), fleet.at(1))
        assert fleet.ledger.samples_trained == 3 * fleet.at(1).samples.sum()
        assert fleet.ledger.isl_bytes == 0
    assert len(Centralised().models(state)) == 1


def test_fedavg_costs_one_upload_per_contact() -> None:
    world = small_world(links="causal")
    with fleet_of(world) as fleet:
        state = FedAvg().start(fleet)
        for t in range(6):
            state = FedAvg().round(state, fleet.at(t))
        assert fleet.ledger.to_ground_bytes == fleet.fedavg_to_ground_bytes(6)
        assert fleet.ledger.from_ground_bytes == DOWNLOADS * 4 * fleet.layout.size


def test_ditto_sends_the_global_model_to_none_but_those_who_train_with_it() -> None:
    worlds = {links: small_world(links=links) for links in ("ideal", "causal")}
    for world in worlds.values():
        with fleet_of(world) as fleet:
            state = Ditto().start(fleet)
            for t in range(6):
                state = Ditto().round(state, fleet.at(t))
            assert fleet.ledger.unlinked_bytes == 0
            assert fleet.ledger.from_ground_bytes == DOWNLOADS * 4 * fleet.layout.size
    ideal, causal = (play(Ditto(), world)[-1] for world in worlds.values())
    assert_same(ideal, causal)


@pytest.mark.parametrize(
    ("method", "epochs"),
    [
        (FedAvg(), [1, 1, 0]),
        (Ditto(), [2, 2, 0]),  # two models of one epoch each
        (APFL(), [2, 2, 0]),
        (Local(), [1, 1, 0]),
        (Centralised(epochs=3), [3, 3, 3]),  # everybody's data take part
    ],
)
def test_epochs_count_once_per_model(method: Method, epochs: list[int]) -> None:
    with fleet_of(small_world()) as fleet:
        assert all(fleet.at(2).orbits.trainers(orbit) for orbit in range(3))
        method.round(method.start(fleet), fleet.at(2))
        assert fleet.ledger.epochs == epochs


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("fedorbit", {"roh": 0.9}, "methods.fedorbit: unknown key 'roh'; did you mean 'rho'?"),
        ("fedorbit", {"rho": 1.5}, "rho must be above 0 and at most 1, got 1.5"),
        ("ditto", {"lambda": -1.0}, "lambda must be at least 0, got -1.0"),
        ("ditto", {"lamda": 0.2}, "unknown key 'lamda'; did you mean 'lambda'?"),
        ("local", {"effort": "some"}, "effort must be one of 'base', 'visible', 'always'"),
    ],
)
def test_wrong_parameters(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_method(name, parameters)
    assert message in str(error.value)


def test_a_method_of_an_earlier_contract_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "earlier.py").write_text(
        "from fedorbit.methods.fedavg import FedAvg\n"
        "class Earlier(FedAvg):\n    def round(self, state, t, fleet):\n        return state\n"
    )
    allow_code("earlier")
    with pytest.raises(ModelError) as error:
        find_method("earlier:Earlier")
    assert str(error.value) == (
        "earlier:Earlier.round takes (self, state, t, fleet), and is called as round(state, now); "
        "see docs/methods.md, A method of your own"
    )


def test_methods_are_found_by_name_or_path() -> None:
    allow_code("fedorbit.methods", "pathlib")
    assert find_method("fedavg") is FedAvg
    assert find_method("fedorbit.methods.local:Local") is Local
    with pytest.raises(ModelError, match=r"no method 'fedavq' \(did you mean 'fedavg'\?\)"):
        find_method("fedavq")
    with pytest.raises(ModelError, match="must be a subclass"):
        find_method("pathlib:Path")


def test_orbits_under_way_count_with_the_model_that_the_ground_has() -> None:
    """Orbits 0 and 1 begin in slot 0; the satellites of orbit 1 meet in slot 2 only."""
    rows = ((0, 1, 0.0, 1800.0), (2, 3, 650.0, 660.0), (0, 6, 0.0, 1800.0), (2, 6, 0.0, 1800.0))
    world = planned(*rows, links="physical", isl="line-of-sight")
    with fleet_of(world) as fleet:
        now, w = fleet.at(0), fleet.initial_model()
        assert list(now.orbits.run({o: train_orbit(now, o, w) for o in (0, 1)})) == [0]
        assert now.orbits.under_way == [1]
        n = now.orbits.samples
        mean = average_at_ground(now, {0: w + 1}, w)
    np.testing.assert_allclose(mean, w + n[0] / (n[0] + n[1]), rtol=1e-5)


@pytest.mark.parametrize("method", [FedAvg(), FedNova(), Scaffold(), PFedMe(), Ditto()])
@pytest.mark.parametrize("steps", [5, 25, 85])
def test_late_results_do_not_overshoot(method: Method, steps: int) -> None:
    """All satellites have the same optimum, 1. Every aggregation takes five slots.

    The ground hears of other orbits in the meantime: its model has changed when a result arrives.
    """
    means, contact = np.ones((10, 1)), np.ones((200, 5), dtype=int).tolist()
    with paired_orbits(means, contact, routed=True, epochs=steps, momentum=0.9, rate=0.01) as fleet:
        state, models = method.start(fleet), []
        for t in range(200):
            state = method.round(state, fleet.at(t))
            models.append(float(state["global"][0]))
    assert max(models) < 1.2
    assert abs(models[-1] - 1.0) < 0.1
