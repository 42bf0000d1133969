"""Run folders written by hand, so that every figure in a report can be worked out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedorbit.config import Config
from fedorbit.config.files import dumps
from fedorbit.simulation.records import headline, method_folder, noted

ROUNDS, ORBITS = 12, 3
EVIL = "<script>alert(1)</script>"
VISIBLE = [[[0, 2], [6, 7]], [[3, 5]], []]
"""Rounds in view per orbit: 3, 2 and 0 of 12; rounds 2, 5 and 7 to 11 have none."""


def world(station: str = "London", first_class: str = "field") -> dict[str, Any]:
    """A setting of three orbits with one satellite each, moving one degree per round."""
    return {
        "format": 1,
        "dataset": "synthetic",
        "classes": [first_class, "town"],
        "image_shape": [16, 16, 3],
        "orbit_class_counts": [[10, 0], [0, 20], [5, 5]],
        "test_class_counts": [[2, 0], [0, 4], [1, 1]],
        "satellite_samples": [10, 20, 10],
        "unseen_samples": 7,
        "similarity": [[1.0, 0.1, 0.5], [0.1, 1.0, 0.5], [0.5, 0.5, 1.0]],
        "beta": 0.367,
        "rounds": ROUNDS,
        "round_s": 300.0,
        "horizon_rounds": 40,
        "tau_max": 12,
        "visible": VISIBLE,
        "stations": [
            {
                "name": station,
                "latitude_deg": 51.0,
                "longitude_deg": -0.1,
                "min_elevation_deg": 10.0,
                "radius_deg": 15.0,
            }
        ],
        "positions": {
            "of_satellites": ORBITS,
            "satellites": [0, 1, 2],
            "orbit_of_satellite": [0, 1, 2],
            "names": ["a", "b", "c"],
            "every_round": 1,
            "latitude_deg": [[50.0, 0.0, -50.0] for _ in range(ROUNDS)],
            "longitude_deg": [[0.0 + t, 60.0 + t, 120.0 + t] for t in range(ROUNDS)],
            "seen": [[0] if t in (0, 1, 6) else [1] if t in (3, 4) else [] for t in range(ROUNDS)],
        },
        "places": {"bin_deg": 1.0, "rows": [[51, 0, 0, 12], [51, 0, 1, 3], [40, 9, 2, 5]]},
    }


CONFUSION = [[[1, 1], [0, 0]], [[0, 0], [1, 3]], None]
"""Test samples by true and predicted class at the end, per orbit; orbit 2 was not evaluated."""
LINKS = [(0, 1, 0.0, 650.0), (0, 1, 3000.0, 3300.0), (1, 2, 300.0, 99_999.0)]
"""Links between satellites: nodes, begin and end; in rounds 0 to 2, 10, and from 1 on."""


def linked_world() -> dict[str, Any]:
    """The same setting with a contact plan: one contact with the station, and three links."""
    rows = sorted([*LINKS, (0, 3, 0.0, 600.0)], key=lambda row: (row[2], row[0], row[1]))
    first, second, begin_s, end_s = (list(column) for column in zip(*rows, strict=True))
    contacts = {
        "format": 1, "satellites": 3, "servers": 1, "horizon_s": 99_999.0,
        "kinds": ["ground", "platform", "isl"], "count": len(rows), "first": first,
        "second": second, "begin_s": begin_s, "end_s": end_s,
        "kind": [0 if node == 3 else 2 for node in second], "range_km": [None] * len(rows),
    }  # fmt: skip
    return {**world(), "format": 2, "passes": [2, 1, 0], "contacts": contacts}


def record(t: int, accuracy: float, uplink_bytes: int = 100) -> dict[str, Any]:
    """A round: orbit 0 is 10 points below the mean, orbit 2 as much above it."""
    return {
        "round": t,
        "visible": [o for o in range(ORBITS) if any(a <= t < b for a, b in VISIBLE[o])],
        "accuracy": accuracy,
        "spread": 20.0,
        "orbit_accuracy": [accuracy - 10.0, accuracy, accuracy + 10.0],
        "orbit_loss": [1.0, None, 0.5],
        "samples_trained": 1000 * (t + 1),
        "to_ground_bytes": uplink_bytes * (t + 1),
        "from_ground_bytes": 50 * (t + 1),
        "isl_bytes": 400 * (t + 1),
        "unlinked_bytes": 0,
        "epochs": [1, 1, 1],
        "seconds": 0.5 * (t + 1),
    }


def write_run(
    folder: Path,
    accuracies: dict[str, float],
    *,
    seed: int = 0,
    unfinished: tuple[str, ...] = (),
    setting: dict[str, Any] | None = None,
    notes: dict[str, Sequence[dict[str, Any]]] | None = None,
    transfers: list[list[int]] | None = None,
    rise: float = 0.0,
    **changes: Any,
) -> Path:
    """Write a run in which the accuracy of each method rises by so much per round, or stays.

    An unfinished method has half of its rounds and no summary. `notes` are by method and round.
    """
    values = {
        "seed": seed,
        "constellation": {"planes": ORBITS, "satellites_per_plane": 1},
        "run": {"rounds": ROUNDS, "method": list(accuracies)},
        **changes,
    }
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(dumps(Config.model_validate(values)), encoding="utf-8")
    if setting is not None:
        (folder / "world.json").write_text(json.dumps(setting), encoding="utf-8")
    for method, accuracy in accuracies.items():
        target = method_folder(folder, method)
        target.mkdir()
        rounds = ROUNDS // 2 if method in unfinished else ROUNDS
        records = [record(t, accuracy + rise * t) for t in range(rounds)]
        for one, told in zip(records, (notes or {}).get(method, ()), strict=False):
            one |= {"noted": told} if told else {}
        if setting is not None:
            records[-1]["confusion"] = CONFUSION
        lines = "".join(json.dumps(r) + "\n" for r in records)
        (target / "records.jsonl").write_text(lines)
        if method in unfinished:
            continue
        last = {k: v for k, v in records[-1].items() if k.endswith("_bytes")}
        summary = {
            "method": method,
            **headline(records),
            **last,
            **noted(records),
            "samples_trained": records[-1]["samples_trained"],
            "seconds": 6.0,
            "to_ground_vs_fedavg": 1.0,
            "rounds": rounds,
            **({} if transfers is None else {"transfers": transfers}),
            "provenance": {"fedorbit": "9.9", "commit": "c" * 40 + "+", "cpu": "Abacus 3000"},
        }
        (target / "summary.json").write_text(json.dumps(summary))
    return folder


def note(value: float, count: int = 1) -> dict[str, float]:
    """Return the entry in a record of a number that was noted `count` times."""
    return {"count": count, "mean": value, "max": value, "last": value}


def visits(lag: float = 0.0) -> list[dict[str, Any]]:
    """Notes of a method that aggregates in every third round, and is idle in every fourth."""
    rounds = []
    for t in range(ROUNDS):
        told: dict[str, Any] = {}
        if t % 3 == 1:  # rounds 1, 4, 7, 10
            told |= {"staleness": note(t + lag, 2), "version": note(float(t // 3 + 1))}
        if t % 4 == 3:  # rounds 3, 7, 11
            told["idle_visit"] = note(1.0, 5)
        rounds.append(told)
    return rounds


def write_space(folder: Path, seeds: tuple[int, ...] = (0,)) -> Path:
    """Write runs of FedSat, which notes things, and of FedAvg, which notes nothing."""
    for seed in seeds:
        accuracies = {"fedsat": 60.0 + seed, "fedavg": 50.0}
        write_run(
            folder / f"space-{seed}",
            accuracies,
            seed=seed,
            setting=world(),
            notes={"fedsat": visits(lag=2.0 * seed)},
        )
    return folder


def write_sweep(folder: Path, seeds: tuple[int, ...] = (0,), default: float = 0.5) -> Path:
    """Write a study of kappa at 0, at a default that only its file names, and at 2.

    Accuracies are 60, 64 and 62, and one more for every seed; FedAvg is there, too.
    """
    cells = []
    for seed in seeds:
        write_run(folder / f"fedavg-{seed}", {"fedavg": 50.0}, seed=seed, setting=world())
        for value, accuracy in ((0.0, 60.0), (default, 64.0), (2.0, 62.0)):
            name = f"{value}-{seed}"
            given = {} if value == default else {"fedorbit": {"kappa": value}}
            accuracies = {"fedorbit": accuracy + seed}
            write_run(folder / name, accuracies, seed=seed, setting=world(), methods=given)
            cells.append(
                f'[[cells]]\nfolder = "{name}"\nmethod = "fedorbit"\n'
                f'settings = {{ "methods.fedorbit.kappa" = {value} }}\n'
            )
    (folder / "study.toml").write_text('title = "kappa"\n' + "".join(cells))
    return folder
