import numpy as np
import pytest

from fedorbit.build import (
    build_activity,
    build_constellation,
    build_hardware,
    build_partition,
    build_plan,
    build_schedule,
    build_split,
    has_rates,
    image_shape,
    load_dataset,
    partition_scheme,
)
from fedorbit.config import Config, load_config
from fedorbit.errors import ConfigError


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


def active_of(*events: dict) -> list[list[int]]:
    """Satellites that are there in rounds 0 to 4; 3 orbits of 2."""
    config = Config.model_validate(
        {
            "constellation": {"planes": 3, "satellites_per_plane": 2},
            "schedule": {"rounds": 5},
            "events": events,
        }
    )
    activity = build_activity(config, build_constellation(config))
    return [np.flatnonzero(there).tolist() for there in activity.during(range(5))]


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
    assert active_of(*events) == expected


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
        active_of(leave(0, orbit=1), event)
    assert message in str(error.value)


def test_speeds_are_given_or_drawn() -> None:
    def speeds(*overrides: str) -> list[float]:
        config = load_config("paper", ["constellation.satellites_per_plane=1", *overrides])
        hardware = build_hardware(config, build_constellation(config))
        assert hardware is not None
        assert hardware.power is None
        return hardware.samples_per_s.tolist()

    assert speeds("onboard.samples_per_s=20") == [20.0] * 5
    assert speeds("onboard.samples_per_s=[1, 2, 3, 4, 5]") == [1.0, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(ConfigError, match=r"must be one number or a list of 5, .* got a list of 2"):
        speeds("onboard.samples_per_s=[1, 2]")
    drawn = speeds("onboard.samples_per_s=20", "onboard.speed_spread=0.5")
    assert len(set(drawn)) == 5
    assert drawn == speeds("onboard.samples_per_s=20", "onboard.speed_spread=0.5")
    assert drawn != speeds("onboard.samples_per_s=20", "onboard.speed_spread=0.5", "seed=1")
    # Log-normal: twice the sigma squares the factor. A satellite's draw is its own.
    wider = speeds("onboard.samples_per_s=20", "onboard.speed_spread=1.0")
    np.testing.assert_allclose(np.array(wider) / 20, (np.array(drawn) / 20) ** 2)
    fewer = speeds("onboard.samples_per_s=20", "onboard.speed_spread=0.5", "constellation.planes=3")
    assert fewer == drawn[:3]


def test_drawn_speeds_are_log_normal() -> None:
    config = load_config(
        "paper",
        ["constellation.planes=50", "constellation.satellites_per_plane=40",
         "onboard.samples_per_s=7", "onboard.speed_spread=0.4"],
    )  # fmt: skip
    hardware = build_hardware(config, build_constellation(config))
    assert hardware is not None
    logs = np.log(hardware.samples_per_s / 7.0)
    assert abs(logs.mean()) < 4 * 0.4 / np.sqrt(2000)  # four standard errors
    assert abs(logs.std() - 0.4) < 4 * 0.4 / np.sqrt(4000)


def test_energy_is_in_joules_and_sunlight_covers_the_run() -> None:
    config = load_config(
        "paper",
        ["run.rounds=30", "onboard.samples_per_s=1",
         "onboard.energy={battery_wh=2, solar_w=3, training_w=4, initial_charge=0.25}"],
    )  # fmt: skip
    hardware = build_hardware(config, build_constellation(config))
    assert hardware is not None
    power = hardware.power
    assert power is not None
    assert (power.battery_j, power.initial_j) == (7200.0, 1800.0)
    assert power.sunlit_s.shape == (30, 20)
    assert power.sunlit_s.min() == 0.0
    assert power.sunlit_s.max() == 300.0


def test_rates_that_say_nothing() -> None:
    assert not has_rates(load_config("paper"))
    assert not has_rates(load_config("paper", ["link_rates={}"]))
    isl = ["onboard.samples_per_s=1", "link_rates.isl_mbps=3"]
    assert not has_rates(load_config("paper", isl))
    assert has_rates(load_config("paper", ["link_rates.from_ground_mbps=3"]))


def test_the_shape_of_images_is_known_without_them() -> None:
    small = ["data.synthetic.samples=60", "data.synthetic.size=8", "data.synthetic.classes=3"]
    config = load_config("quickstart", [*small, "data.synthetic.channels=2"])
    dataset = load_dataset(config)
    assert image_shape(config) == (dataset.images.shape[1:], len(dataset.class_names))
    assert image_shape(config) == ((8, 8, 2), 3)


def test_a_share_of_the_images() -> None:
    whole, third = (load_config("quickstart", [f"data.share={share}"]) for share in (1.0, 0.3))
    dataset = load_dataset(whole)
    all_of_it, part = build_split(whole, dataset), build_split(third, dataset)
    assert len(all_of_it.train) + len(all_of_it.test) == len(dataset.labels)
    assert len(part.train) == pytest.approx(0.3 * len(all_of_it.train), abs=5)
    assert len(part.test) == pytest.approx(0.3 * len(all_of_it.test), abs=5)
    again = build_split(load_config("quickstart", []), dataset)
    np.testing.assert_array_equal(again.train, all_of_it.train)


def test_in_the_quickstart_nothing_moves_without_a_link_and_every_orbit_is_seen() -> None:
    config = load_config("quickstart")
    assert config.is_routed
    constellation = build_constellation(config)
    schedule = build_schedule(config, constellation, build_plan(config, constellation))
    assert schedule.visible[: config.run.rounds].any(axis=0).all()
