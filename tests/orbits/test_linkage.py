"""Links in numbers, against plans written by hand and brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedorbit.orbits.linkage import linkage, overlaps
from fedorbit.orbits.plan import KINDS, ContactPlan, merged

ORBITS = np.array([0, 0, 1, 1])


def written(rows: list[tuple[int, int, float, float, float]], horizon_s: float) -> ContactPlan:
    """A plan of four satellites and one server from rows of nodes, begin, end and range."""
    first, second, begin_s, end_s, range_km = np.array(rows, dtype=float).reshape(-1, 5).T
    kind = np.where(second < 4, KINDS.index("isl"), 0).astype(np.uint8)
    nodes = first.astype(np.int32), second.astype(np.int32)
    return merged(ContactPlan(4, 1, horizon_s, *nodes, begin_s, end_s, kind, range_km))


def test_a_plan_written_by_hand() -> None:
    plan = written(
        [
            (0, 1, 0.0, 100.0, 900.0),  # permanent
            (0, 2, 10.0, 30.0, 500.0),
            (0, 2, 60.0, 70.0, 600.0),
            (1, 3, 20.0, 60.0, 700.0),
            (1, 3, 90.0, 100.0, 800.0),  # cut at the end
            (0, 4, 0.0, 100.0, 1.0),  # with the server: no link
        ],
        100.0,
    )
    found = linkage(plan, ORBITS)
    assert len(plan.between_satellites) == 5
    inside, across = found.in_plane, found.cross_plane
    assert (inside.pairs, inside.possible, inside.windows, inside.permanent) == (1, 2, 1, 1)
    assert (inside.median_s, inside.shortest_s, inside.longest_s) == (100.0, None, None)
    assert (across.pairs, across.possible, across.windows, across.permanent) == (2, 4, 4, 0)
    assert (across.median_s, across.shortest_s, across.longest_s) == (15.0, 10.0, 40.0)
    assert inside.at_a_time == 1.0 and across.at_a_time == pytest.approx(0.8)
    assert inside.nearest_km == 900.0 and across.nearest_km == 500.0
    assert found.none == 0.0
    assert found.alone == pytest.approx((0.0 + 0.0 + 0.7 + 0.5) / 4)
    assert found.most == 2
    np.testing.assert_allclose(found.orbit_pairs, [[1.0, 0.7], [0.7, 0.0]])


def test_no_links() -> None:
    found = linkage(written([(0, 4, 0.0, 5.0, 1.0)], 10.0), ORBITS)
    assert found.none == found.alone == 1.0 and found.most == 0
    assert found.cross_plane.median_s is None and found.cross_plane.nearest_km is None
    assert not found.orbit_pairs.any()


interval = st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(1, 10))


@given(st.lists(interval, max_size=12))
def test_overlaps_are_those_of_counting_seconds(rows: list[tuple[int, int, int]]) -> None:
    group, begin, length = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    covered_s, most = overlaps(group, begin.astype(float), (begin + length).astype(float), 3)
    count = np.zeros((3, 40), dtype=int)
    for g, b, n in rows:
        count[g, b : b + n] += 1
    assert covered_s.tolist() == (count > 0).sum(axis=1).tolist()
    assert most.tolist() == count.max(axis=1).tolist()
