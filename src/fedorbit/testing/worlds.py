"""Worlds that are small enough for tests, and what changes in them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.build import routed_schedule, usable_plan
from fedorbit.config import Config
from fedorbit.config.network import NetworkSection
from fedorbit.config.onboard import LinkRatesSection
from fedorbit.fleet import BYTES_PER_PARAMETER, ONE_MODEL, Fleet, Needs
from fedorbit.learning.engine import LocalEngine
from fedorbit.orbits.crosslinks import Links
from fedorbit.orbits.plan import plan_of_slots, with_links
from fedorbit.simulation.world import World, build_world

ROUNDS = 6
PATTERN = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)
"""Orbits in view in the small world: single ones, pairs, none, and first contacts late."""
EVENTS: tuple[dict[str, Any], ...] = (
    {"round": 2, "kind": "leave", "satellite": 0},
    {"round": 3, "kind": "leave", "orbit": 1},
    {"round": 4, "kind": "join", "orbit": 2},
    {"round": 5, "kind": "join", "orbit": 1},
)
"""A satellite is lost, an orbit leaves and comes back, another is launched."""
ROUTED: tuple[dict[str, Any], ...] = (
    {"links": "physical", "isl": "line-of-sight"},
    {"links": "physical", "isl": "none"},
)
"""Worlds in which satellites of an orbit have links at times only, or none but the ground."""
SPARSE: dict[str, Any] = {**ROUTED[0], "sparse": True}
"""A world in which most satellites have no way to others but over a mate, in every third slot."""
APART: dict[str, Any] = {**ROUTED[0], "apart": True}
"""A world with a second station that is not linked to the first, and sees what that does not."""
LINKED: tuple[dict[str, Any], ...] = ({"links": "causal"}, *ROUTED)
"""Worlds in which no model moves without a link."""
MODES: tuple[dict[str, Any], ...] = ({"links": "ideal"}, *LINKED)
STATIONS_APART: tuple[dict[str, Any], ...] = (
    {"name": "first", "latitude_deg": 51.0, "longitude_deg": 0.0},
    {"name": "second", "latitude_deg": -51.0, "longitude_deg": 180.0},
)
SCARCE_POWER: dict[str, Any] = {
    "samples_per_s": 10.0,
    "speed_spread": 0.5,
    "energy": {"battery_wh": 0.006, "solar_w": 0.03, "training_w": 10.0, "initial_charge": 0.5},
}
"""Batteries for one or two epochs in the small world, some none; a sunlit round fills a third."""
SCARCE_TIME: dict[str, Any] = {"samples_per_s": 0.05, "speed_spread": 0.5, "deadline": True}
"""A round is long enough for an epoch or two, or for none on a satellite with many samples."""


def small_world(
    visible: NDArray[np.bool_] = PATTERN,
    *,
    satellites_per_plane: int = 2,
    classes: int = 4,
    samples: int = 90,
    links: str = "ideal",
    seed: int = 0,
    backend: str = "auto",
    model: dict[str, Any] | None = None,
    events: Sequence[dict[str, Any]] = (),
    onboard: dict[str, Any] | None = None,
    model_s: float | None = None,
    isl: str = "assumed",
    sparse: bool = False,
    training: Mapping[str, Any] | None = None,
    apart: bool = False,
) -> World:
    """Return a world in which a round takes a blink; inactive orbits are never in view.

    All satellites of an orbit in view are in contact with the first station. A model that a
    satellite sends to it, or receives, takes `model_s` seconds of a contact: none unless given.
    With another `isl` satellites of an orbit in view pass the station one after the other within a
    round. With "line-of-sight" they have the contacts of `linked_in_turn`, with "none" none. In a
    `sparse` world only the satellite of an orbit that has the fewest samples meets the station, and
    there are no links between orbits. `apart`: orbits out of view are in that of a second station,
    which has no link to the first.
    """
    servers = {"servers": "line-of-sight"} if apart else {}
    config = Config.model_validate(
        {
            "seed": seed,
            "constellation": {
                "planes": visible.shape[1],
                "satellites_per_plane": satellites_per_plane,
            },
            "schedule": {"rounds": len(visible)},
            "data": {"synthetic": {"classes": classes, "samples": samples, "size": 16}},
            "model": model or {},
            "training": {"epochs": 1, "batch": 16, **(training or {})},
            "run": {"rounds": len(visible), "links": links},
            "engine": {"backend": backend},
            "events": events,
            "onboard": onboard,
            "network": None if isl == "assumed" else {"isl": "none", **servers},
            **({"stations": STATIONS_APART} if apart else {}),
        }
    )
    world = build_world(config)
    if isl == "line-of-sight":  # only now: geometry has links of its own
        network = NetworkSection.model_validate({"isl": "line-of-sight", **servers})
        config = config.model_copy(update={"network": network})
    round_s, by_orbit = config.schedule.round_s, world.partition.orbit_of_satellite
    is_first = np.arange(len(config.stations)) == 0
    in_contact, parts = visible[:, by_orbit, None] & is_first, 1
    if apart:
        in_contact |= ~visible[:, by_orbit, None] & ~is_first
    if sparse:
        held = np.array([len(part) for part in world.partition.train])
        in_contact &= np.isin(np.arange(len(held)), _fewest(held, by_orbit))[:, None]
    if isl != "assumed":
        parts = satellites_per_plane
        turn = (
            np.arange(len(in_contact) * parts)[:, None] % parts == np.arange(len(by_orbit)) % parts
        )
        in_contact = np.repeat(in_contact, parts, axis=0) & turn[:, :, None]
    plan = plan_of_slots(in_contact, round_s / parts)
    if isl == "line-of-sight":
        found = linked_in_turn(by_orbit, len(visible), round_s, within_orbits=sparse)
        plan = with_links(plan, found)
    active_plan = usable_plan(config, plan, world.activity)
    schedule = replace(world.schedule, visible=visible & world.orbits_present)
    if config.is_routed:
        schedule = routed_schedule(config, by_orbit, active_plan, model_bytes=0)
    if model_s is not None:  # only now: rates would also decide which rounds serve an orbit
        mbps = 8 * BYTES_PER_PARAMETER * len(world.initial_model) / 1e6 / model_s
        rates = LinkRatesSection(to_ground_mbps=mbps, from_ground_mbps=mbps)
        config = config.model_copy(update={"link_rates": rates})
    return replace(world, config=config, schedule=schedule, plan=plan, active_plan=active_plan)


def shared_world(visible: NDArray[np.bool_] = PATTERN, **settings: Any) -> World:
    """Return a `small_world` that may have been built before: many tests play in the same one."""
    key = visible.shape, visible.tobytes(), json.dumps(settings, sort_keys=True)
    if key not in _shared:
        _shared[key] = small_world(visible, **settings)
    return _shared[key]


_shared: dict[Any, World] = {}


def _fewest(samples: NDArray[np.int64], orbit_of_satellite: NDArray[np.int64]) -> list[int]:
    """Return the satellite of each orbit that has the fewest samples."""
    members = (np.flatnonzero(orbit_of_satellite == o) for o in np.unique(orbit_of_satellite))
    return [int(own[samples[own].argmin()]) for own in members]


def linked_in_turn(
    orbit_of_satellite: NDArray[np.int64], slots: int, slot_s: float, within_orbits: bool = False
) -> Links:
    """Return links between satellites that take turns, each for a third of a slot.

    Neighbours within an orbit are linked in every third slot, satellites of neighbouring orbits in
    every other, early or late in it. `within_orbits`: the first alone, in slots 2, 5 and so on.
    """
    rows = []
    for slot, k in product(range(slots), range(len(orbit_of_satellite) - 1)):
        same = orbit_of_satellite[k] == orbit_of_satellite[k + 1]
        if within_orbits:
            is_linked = same and slot % 3 == 2
        else:
            is_linked = (slot + k) % (3 if same else 2) == 0
        if is_linked:
            begin_s = (slot + (0.5 if k % 2 else 0.1)) * slot_s
            rows.append((k, k + 1, begin_s, begin_s + slot_s / 3))
    first, second, begins_s, ends_s = np.array(rows).reshape(-1, 4).T
    never = np.zeros(len(rows), dtype=np.bool_)
    return Links(
        first=first.astype(np.int32),
        second=second.astype(np.int32),
        begin_s=begins_s,
        end_s=ends_s,
        range_km=np.full(len(rows), np.nan),
        cut_at_start=never,
        cut_at_end=never,
    )


@contextmanager
def fleet_of(world: World, workers: int = 1, needs: Needs = ONE_MODEL) -> Iterator[Fleet]:
    """Yield a fleet, and close its engine afterwards."""
    engine = LocalEngine(world.trainer(), world.data, world.config.seed, workers)
    try:
        yield world.fleet(engine, needs)
    finally:
        engine.close()


def with_inverted_images(world: World, satellites: Sequence[int]) -> World:
    """Return the world with other images on board of some satellites, to see what learns of it."""
    samples = np.concatenate([world.partition.train[satellite] for satellite in satellites])
    assert len(samples), "there must be images to invert"
    images = world.data.images.copy()
    images[samples] = 255 - images[samples]
    return replace(world, data=replace(world.data, images=images))


def members(world: World, orbit: int) -> list[int]:
    """Satellites of an orbit, active or not."""
    return np.flatnonzero(world.partition.orbit_of_satellite == orbit).tolist()
