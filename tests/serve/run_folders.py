"""Runs whose geometry is real and whose records are written by hand, by the run's own writers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedorbit.build import build_constellation, build_plan
from fedorbit.config import Config
from fedorbit.config.files import dumps
from fedorbit.orbits.plan_files import as_document
from fedorbit.simulation.manifest import read_manifest, write_manifest
from fedorbit.simulation.records import RecordFile, method_folder, read_records
from tests.report import run_folders

STATION = {"name": "Kiruna", "latitude_deg": 67.9, "longitude_deg": 20.2}


def write_run(
    folder: Path, methods: Sequence[str] = ("fedavg",), rounds: int = 12, **settings: Any
) -> Path:
    """Write a run in which no method has begun; by default three orbits of four satellites."""
    values = {
        "constellation": {
            "planes": 3,
            "satellites_per_plane": 4,
            "inclination_deg": 80.0,
            "argument_of_latitude_deg": 0.0,
        },
        "stations": [STATION],
        "network": {"isl": "line-of-sight"},
        **settings,
        "schedule": {"rounds": rounds},
        "run": {"rounds": rounds, "method": list(methods), "links": "physical"},
    }
    config = Config.model_validate(values)
    plan = build_plan(config, build_constellation(config))
    contacts = {"passes": [0, 0, 0], "contacts": as_document(plan)}
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(dumps(config), encoding="utf-8")
    world = {**run_folders.world(), "format": 2, **contacts}
    (folder / "world.json").write_text(json.dumps(world), encoding="utf-8")
    write_manifest(folder, ["world.json"], {})
    return folder


def add_rounds(
    run: Path,
    accuracies: Sequence[float],
    method: str = "fedavg",
    orbits: int = 3,
    hops: Sequence[Sequence[int]] = (),
) -> None:
    """Record further rounds: orbits from 10 points below an accuracy to 10 above it.

    `hops`: those of the first of these rounds.
    """
    folder = method_folder(run, method)
    folder.mkdir(exist_ok=True)
    manifest = read_manifest(run)
    assert manifest is not None
    run_id = manifest.method_id(folder.name)
    path = folder / "records.jsonl"
    done, chain, kept = 0, run_id, 0
    if path.exists():
        kept, done = path.stat().st_size, len(read_records(folder))
        chain = json.loads(path.read_text().splitlines()[-1])["chain"]
    file = RecordFile(folder, run_id, kept, chain)
    for t, accuracy in enumerate(accuracies, done):
        row = run_folders.record(t, accuracy)
        each = [accuracy - 10.0 + 20.0 * orbit / (orbits - 1) for orbit in range(orbits)]
        file.append(
            {
                **row,
                "hours": (t + 1) / 12,
                "orbit_accuracy": each,
                "orbit_loss": [None] * orbits,
                "epochs": [1] * orbits,
                **({"hops": list(map(list, hops))} if hops and t == done else {}),
            }
        )
    file.close()
