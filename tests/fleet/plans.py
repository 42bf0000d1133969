"""Small worlds whose contacts are written down by hand, in seconds."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedorbit.build import routed_schedule, usable_plan
from fedorbit.config.onboard import LinkRatesSection
from fedorbit.orbits.plan import KINDS, ContactPlan, merged
from fedorbit.simulation.world import World
from fedorbit.testing import small_world


def planned(
    *rows: tuple[int, int, float, float],
    links: str = "causal",
    rates: dict[str, float] | None = None,
    **changes: Any,
) -> World:
    """A world of six satellites in three orbits, two servers, and six slots of 300 s.

    Rows are contacts: nodes, begin and end in seconds. Servers are nodes 6 and 7.
    """
    world = small_world(np.zeros((6, 3), dtype=bool), links=links, **changes)
    first, second, begin_s, end_s = (np.array(column) for column in zip(*rows, strict=True))
    plan = merged(
        ContactPlan(
            satellites=6,
            servers=2,
            horizon_s=1800.0,
            first=first.astype(np.int32),
            second=second.astype(np.int32),
            begin_s=begin_s.astype(float),
            end_s=end_s.astype(float),
            kind=np.where(second < 6, KINDS.index("isl"), 0).astype(np.uint8),
            range_km=np.full(len(rows), np.nan),
        )
    )
    config = world.config.model_copy(
        update={"link_rates": LinkRatesSection(**rates) if rates else None}
    )
    active_plan, schedule = usable_plan(config, plan, world.activity), world.schedule
    if config.is_routed:
        orbits, size_bytes = world.partition.orbit_of_satellite, 4 * len(world.initial_model)
        schedule = routed_schedule(config, orbits, active_plan, size_bytes)
    return replace(world, config=config, plan=plan, active_plan=active_plan, schedule=schedule)
