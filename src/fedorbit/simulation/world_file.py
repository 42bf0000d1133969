"""The world of a run as a file: `world.json` holds what a report shows beside the records.

A report reads files only; it neither propagates orbits nor opens datasets. So a run writes down,
once and before its first round, which orbit holds which classes, the contact plan, and where the
satellites and the data are. Positions are rounded, and those of large shells are thinned; the plan
is whole and exact, since a resumed run takes its contacts from here. Of more than `MAX_CONTACTS`
the arrays are in `contacts.npy` beside it: uncompressed, so that a file bounds what reading it
takes.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.data.similarity import (
    class_histograms,
    jensen_shannon_distances,
    similarity_coefficient,
)
from fedorbit.documents import read_bytes
from fedorbit.files import replacing
from fedorbit.orbits.earth import latitude_longitude_deg
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.plan_files import as_document, from_document, from_table, table
from fedorbit.orbits.visibility import round_times_s
from fedorbit.simulation.manifest import (
    CONTACTS,
    SHARED,
    WORLD,
    Manifest,
    bound_file,
    changed,
    read_manifest,
)
from fedorbit.simulation.records import read_setting
from fedorbit.simulation.world import World

FORMAT = 2
"""Format of the file: 1 had no contacts."""
MOST_CONTACT_BYTES = 4 << 30
"""A hundred million contacts."""
MAX_CONTACTS = 200_000
"""Most contacts in `world.json`; 60 bytes each."""
MAX_POSITIONS = 30_000
"""Satellites x rounds on the map; 13 bytes each."""
MAX_SIMILARITIES = 200 * 200
MAX_PLACES = 6000
"""Squares x orbits; 15 bytes each."""
BIN_SIZES_DEG = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

Ints = NDArray[np.int64]


def write_world(folder: Path, world: World) -> list[str]:
    """Write `world.json` of a run, and the contacts if they are too many for it.

    Returns the names of the files.
    """
    text = json.dumps(describe(world), separators=(",", ":"), allow_nan=False)
    with replacing(folder / WORLD) as partial:
        partial.write_text(text + "\n", encoding="utf-8")
    if _fits(world.plan):
        return [WORLD]
    with replacing(folder / CONTACTS) as partial:
        np.save(partial, table(world.plan), allow_pickle=False)
    return [WORLD, CONTACTS]


def written_files(manifest: Manifest) -> list[str]:
    """Return those of a run's files that `write_world` makes."""
    return [name for name in SHARED if name in manifest.files]


def stored_plan(folder: Path) -> ContactPlan | None:
    """Return the plan that a run has written; None for one that did not yet do so."""
    world, manifest = read_setting(folder), read_manifest(folder)
    if world is None or manifest is None or "contacts" not in world:
        return None
    if world["contacts"]["first"] is not None:
        return from_document(world["contacts"])
    if CONTACTS not in manifest.files:
        raise changed(folder / WORLD, "its contacts are missing")
    path = bound_file(folder, CONTACTS, manifest)
    try:  # `read_setting` has compared it with the manifest
        return from_table(world["contacts"], read_bytes(path, MOST_CONTACT_BYTES))
    except ValueError as error:
        raise changed(path, str(error)) from None


def _fits(plan: ContactPlan) -> bool:
    return len(plan) <= MAX_CONTACTS


def describe_input(world: World) -> dict[str, Any]:
    """Return how images are stored, which bands of a file they are, and their standardisation."""
    chosen = ("file_bands", "kept_bands") if world.dataset.description.get("kept_bands") else ()
    return {
        "dtype": world.dataset.images.dtype.name,
        **{key: world.dataset.description[key] for key in chosen},
        "scale": world.data.scale.tolist(),
        "shift": world.data.shift.tolist(),
    }


def describe(world: World) -> dict[str, Any]:
    """Return everything that a configuration fixes before the first round, as plain values."""
    config, dataset, partition = world.config, world.dataset, world.partition
    classes = len(dataset.class_names)
    labels = dataset.labels
    orbit_counts = partition.orbit_counts(labels, classes)
    run_s = config.run.rounds * config.schedule.round_s
    visible = world.schedule.visible[: config.run.rounds]
    return {
        "format": FORMAT,
        "dataset": dataset.name,
        "classes": list(dataset.class_names),
        "image_shape": list(dataset.images.shape[1:]),
        "input": describe_input(world),
        "orbit_class_counts": orbit_counts.tolist(),
        "test_class_counts": partition.test_counts(labels, classes).tolist(),
        "satellite_samples": [len(part) for part in partition.train],
        "unseen_samples": len(partition.unseen_train) + len(partition.unseen_test),
        "similarity": _similarity(orbit_counts),
        "beta": similarity_coefficient(orbit_counts),
        "rounds": config.run.rounds,
        "round_s": config.schedule.round_s,
        "horizon_rounds": world.schedule.rounds,
        "tau_max": world.tau_max,
        "visible": [_windows(column) for column in visible.T],
        "passes": world.active_plan.passes(partition.orbit_of_satellite, run_s).tolist(),
        "contacts": as_document(world.plan, with_arrays=_fits(world.plan)),
        "stations": _stations(world),
        "positions": _positions(world),
        "places": _places(world),
        **({"service": world.service.summary()} if world.service is not None else {}),
    }


def _similarity(orbit_counts: Ints) -> list[list[float]] | None:
    if len(orbit_counts) ** 2 > MAX_SIMILARITIES:
        return None
    similarity = 1.0 - jensen_shannon_distances(class_histograms(orbit_counts))
    rounded: list[list[float]] = similarity.round(3).tolist()
    return rounded


def _windows(column: NDArray[np.bool_]) -> list[list[int]]:
    """Rounds in view as pairs: the first round, and the first that is no longer in view."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], column, [False]))))
    windows: list[list[int]] = edges.reshape(-1, 2).tolist()
    return windows


def _stations(world: World) -> list[dict[str, Any]]:
    """Stations, each with the radius of the area above which it sees a satellite."""
    r_km = np.linalg.norm(world.constellation.r_ecef_km(np.zeros(1))[0], axis=-1).mean()
    return [
        {
            "name": place.name,
            "role": place.role,
            "latitude_deg": place.latitude_deg,
            "longitude_deg": place.longitude_deg,
            "altitude_km": place.altitude_km,
            "min_elevation_deg": place.min_elevation_deg,
            "radius_deg": round(float(np.degrees(place.reach_rad(r_km))), 2),
        }
        for place in world.places
    ]


def _positions(world: World) -> dict[str, Any]:
    """Sub-satellite points at the rounds' beginnings, and which satellites a station sees then."""
    config, constellation = world.config, world.constellation
    satellites, every_round = thinned(constellation.orbit_of_satellite, config.run.rounds)
    rounds = np.arange(0, config.run.rounds, every_round)
    times_s = round_times_s(config.run.rounds, config.schedule.round_s)[rounds]
    r_ecef_km = constellation.r_ecef_km_at(
        np.tile(satellites, len(rounds)), np.repeat(times_s, len(satellites))
    )
    shape = len(rounds), len(satellites)
    there = world.activity.during(rounds)[:, satellites]
    seen = world.active_plan.satellites_in_view(times_s, satellites)
    latitude_deg, longitude_deg = latitude_longitude_deg(r_ecef_km)
    away = {} if there.all() else {"away": [np.flatnonzero(~row).tolist() for row in there]}
    return {
        "of_satellites": constellation.satellites,
        "satellites": satellites.tolist(),
        "orbit_of_satellite": constellation.orbit_of_satellite[satellites].tolist(),
        "names": [constellation.satellite_names[s] for s in satellites],
        "every_round": every_round,
        "latitude_deg": latitude_deg.reshape(shape).round(1).tolist(),
        "longitude_deg": longitude_deg.reshape(shape).round(1).tolist(),
        "seen": [np.flatnonzero(row).tolist() for row in seen],
        **away,  # satellites that have left, or have not been launched
    }


def thinned(orbit_of_satellite: Ints, rounds: int) -> tuple[Ints, int]:
    """Choose satellites and a step over rounds so that no more than `MAX_POSITIONS` are left.

    Satellites go first, evenly from every orbit, down to one per orbit; only then rounds.
    """
    orbits = int(orbit_of_satellite[-1]) + 1
    first = np.searchsorted(orbit_of_satellite, np.arange(orbits))
    place_in_orbit = np.arange(len(orbit_of_satellite)) - first[orbit_of_satellite]
    stride = 1
    chosen = np.arange(len(orbit_of_satellite))
    while len(chosen) * rounds > MAX_POSITIONS and len(chosen) > orbits:
        stride += 1
        chosen = np.flatnonzero(place_in_orbit % stride == 0)
    if len(chosen) > MAX_POSITIONS:
        chosen = chosen[:: -(-len(chosen) // MAX_POSITIONS)]
    allowed_rounds = max(1, MAX_POSITIONS // len(chosen))
    return chosen, -(-rounds // allowed_rounds)


def _places(world: World) -> dict[str, Any] | None:
    """Samples per orbit in squares of latitude and longitude, as fine as fits."""
    dataset, partition = world.dataset, world.partition
    if dataset.latitude_deg is None or dataset.longitude_deg is None:
        return None
    samples = [*partition.train, *partition.test]
    orbits = [*partition.orbit_of_satellite, *range(len(partition.test))]
    orbit = np.repeat(orbits, [len(part) for part in samples])
    sample = np.concatenate(samples)
    latitude_deg, longitude_deg = dataset.latitude_deg[sample], dataset.longitude_deg[sample]
    known = np.isfinite(latitude_deg) & np.isfinite(longitude_deg)
    for size_deg in BIN_SIZES_DEG:
        cells = np.column_stack(
            (
                np.floor(latitude_deg[known] / size_deg),
                np.floor(longitude_deg[known] / size_deg),
                orbit[known],
            )
        ).astype(np.int64)
        rows, counts = np.unique(cells, axis=0, return_counts=True)
        if len(rows) <= MAX_PLACES:
            break
    return {
        "bin_deg": size_deg,
        # South-western corner in bins, orbit, samples.
        "rows": np.column_stack((rows, counts)).tolist(),
    }
