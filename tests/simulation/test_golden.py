"""Nothing that is computed changes: records and models equal those that were kept, bit by bit.

`tests/golden/records.json` was made by commit 82ddbac, before the contract of methods was rebuilt:
every method and its variants, ideal and causal links, with and without events, both backends.
A processor or library that rounds differently trains to other bits; such a machine skips these
tests, by a probe of its training.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedorbit as fo
from fedorbit.config import Config
from fedorbit.learning.ray.node import probe
from fedorbit.methods import make_method
from fedorbit.simulation.records import RENAMED
from fedorbit.simulation.world import build_world
from tests.simulation.test_runs import newest_checkpoint

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "records.json").read_text())
EVENTS = [
    {"round": 3, "kind": "leave", "orbit": 1},
    {"round": 7, "kind": "join", "orbit": 1},
    {"round": 2, "kind": "leave", "satellite": 0},
    {"round": 5, "kind": "join", "satellite": 5},
]
NEW = ("seconds", "hours", "confusion", "hops", "satellites_in_view")
"""Entries of a record that are measured, or were not there then."""
PLACES = [(51.0, 0.0), (-20.0, 120.0), (40.0, -100.0), (0.0, -40.0), (10.0, 70.0)]


def configuration(case: dict[str, Any]) -> Config:
    method, parameters = case["method"], case["parameters"]
    return Config.model_validate(
        {
            "seed": 5,
            "constellation": {"planes": 4, "satellites_per_plane": [3, 2, 3, 1]},
            "stations": [
                {"name": f"s{n}", "latitude_deg": latitude, "longitude_deg": longitude,
                 "min_elevation_deg": 5.0}
                for n, (latitude, longitude) in enumerate(PLACES)
            ],
            "schedule": {"rounds": 40, "round_s": 600.0},
            "data": {"synthetic": {"classes": 4, "samples": 240, "size": 16}},
            "training": {"epochs": 3, "batch": 16, "rate": 0.03,
                         "intra_rounds": case["intra_rounds"]},
            "run": {"rounds": 12, "method": [method], "links": case["links"]},
            "methods": {method: parameters} if parameters else {},
            "events": EVENTS if case["events"] else [],
            "engine": {"checkpoint_every": 100, "workers": 2, "backend": case["backend"]},
        }
    )  # fmt: skip


@cache
def trains_alike(backend: str) -> bool:
    world = build_world(configuration({**GOLDEN["cases"][0], "backend": backend}))
    found = probe(world.trainer(), world.data, world.spec.layout.size)
    return bool(found == GOLDEN[f"{backend}_probe"])


def name(case: dict[str, Any]) -> str:
    parts = [case["method"], *(f"{k}={v}" for k, v in case["parameters"].items()), case["links"]]
    parts += (
        ["events"] * case["events"] + [case["backend"]] + ["twice"] * (case["intra_rounds"] - 1)
    )
    return " ".join(parts)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=name)
def test_records_and_models_are_as_they_were(case: dict[str, Any], tmp_path: Path) -> None:
    if not trains_alike(case["backend"]):
        pytest.skip("this machine's rounding is not that of the one that made the golden records")
    [run] = fo.run(configuration(case), tmp_path / "run").runs
    records = [{k: v for k, v in r.items() if k not in NEW} for r in run.records]
    assert records == [{RENAMED.get(k, k): v for k, v in r.items()} for r in case["records"]]
    state = newest_checkpoint(run.folder).state
    models = make_method(case["method"], case["parameters"]).models(state)
    models = np.ascontiguousarray(np.broadcast_to(models, (4, models.shape[1])))  # one for everyone
    assert hashlib.sha256(models.tobytes()).hexdigest() == case["models_sha256"]
