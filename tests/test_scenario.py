import pytest

from fedorbit.config import load_config
from fedorbit.scenario import build_constellation, build_partition, load_dataset, partition_scheme


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
