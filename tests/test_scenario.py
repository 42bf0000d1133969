import numpy as np
import pytest

from fedorbit.config import Config, load_config
from fedorbit.errors import ConfigError
from fedorbit.scenario import (
    build_constellation,
    build_partition,
    build_presence,
    load_dataset,
    partition_scheme,
)


@pytest.mark.parametrize(
    ("override", "passes", "unseen"),
    [
        ("partition.swath_half_width_km=50", 334, 178),
        ("partition.swath_half_width_km=400", 2419, 14),
        ("partition.swath_half_width_km=145", 977, 42),
        ("seed=0", 977, 42),
        ("partition.min_elevation_deg=30", 4397, 0),
    ],
)
def test_the_configured_swath_decides_who_sees_what(override, passes: int, unseen: int) -> None:
    """Pinned: 400 synthetic places, 20 satellites, 4 hours."""
    config = load_config(
        "quickstart",
        ["data.synthetic.samples=400", "data.synthetic.size=8", "schedule.rounds=48",
         "partition.scheme=ground-track", override],
    )  # fmt: skip
    dataset, constellation = load_dataset(config), build_constellation(config)
    assert partition_scheme(config, dataset, constellation).passes.sum() == passes
    partition = build_partition(config, dataset, constellation)
    assert len(partition.unseen_train) + len(partition.unseen_test) == unseen


def presence_of(*events: dict) -> list[list[int]]:
    """Satellites that are there in rounds 0 to 4; 3 orbits of 2."""
    config = Config.model_validate(
        {
            "constellation": {"planes": 3, "satellites_per_plane": 2},
            "schedule": {"rounds": 5},
            "events": events,
        }
    )
    presence = build_presence(config, build_constellation(config))
    return [np.flatnonzero(there).tolist() for there in presence.during(range(5))]


def leave(t: int, **subject: int) -> dict:
    return {"round": t, "kind": "leave", **subject}


def join(t: int, **subject: int) -> dict:
    return {"round": t, "kind": "join", **subject}


ALL = [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], [ALL] * 5),
        ([leave(2, satellite=3)], [ALL, ALL] + [[0, 1, 2, 4, 5]] * 3),
        ([leave(0, orbit=1)], [[0, 1, 4, 5]] * 5),
        ([join(3, orbit=0)], [[2, 3, 4, 5]] * 3 + [ALL] * 2),
        # In any order, and first a join, then a leave.
        ([leave(3, orbit=0), join(1, orbit=0)], [[2, 3, 4, 5], ALL, ALL] + [[2, 3, 4, 5]] * 2),
        # A satellite is there while neither itself nor its orbit is away.
        ([leave(1, satellite=4), leave(2, orbit=2), join(3, orbit=2), join(4, satellite=4)],
         [ALL, [0, 1, 2, 3, 5], [0, 1, 2, 3], [0, 1, 2, 3, 5], ALL]),
        ([leave(2, orbit=0), leave(2, satellite=5)], [ALL, ALL] + [[2, 3, 4]] * 3),
    ],
)  # fmt: skip
def test_events_decide_who_is_there(events, expected) -> None:
    assert presence_of(*events) == expected


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (leave(1, orbit=3), "events.1.orbit must be below 3, the number of orbits, got 3"),
        (leave(1, satellite=6), "events.1.satellite must be below 6, the number of satellites"),
        (leave(5, orbit=0), "events.1.round must be below schedule.rounds (5), got 5"),
    ],
)
def test_an_event_must_concern_somebody_at_some_time(event, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        presence_of(leave(0, orbit=1), event)
    assert message in str(error.value)
