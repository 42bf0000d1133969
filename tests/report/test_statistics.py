"""Curves of means over seeds against SciPy and NumPy."""

import numpy as np
import pytest
import scipy.stats

from fedorbit.report.statistics import curve, evenly, t_975


@pytest.mark.parametrize("degrees", [*range(1, 31), 31, 50, 1000])
def test_the_quantiles_are_students(degrees: int) -> None:
    tolerance = 6e-4 if degrees <= 30 else 4e-3
    assert t_975(degrees) == pytest.approx(scipy.stats.t.ppf(0.975, degrees), abs=tolerance)


def test_a_curve_is_the_mean_with_its_confidence_interval() -> None:
    values = np.array(
        [[1.0, 2.0, np.nan, np.nan], [3.0, 4.0, 5.0, np.nan], [8.0, np.nan, np.nan, np.nan]]
    )
    found = curve(np.arange(4.0), values)
    np.testing.assert_allclose(found.mean[:3], [4.0, 3.0, 5.0])
    assert np.isnan(found.mean[3])
    known = [1.0, 3.0, 8.0]
    low, high = scipy.stats.t.interval(0.95, 2, np.mean(known), scipy.stats.sem(known))
    assert 2.0 * found.half[0] == pytest.approx(high - low, rel=1e-3)
    assert found.half[1] == pytest.approx(1.0)  # from 2 to 4: of two seeds, what is between them
    assert np.isnan(found.half[2:]).all()  # one seed has no interval


def test_thinning_keeps_both_ends() -> None:
    assert evenly(5, 10).tolist() == [0, 1, 2, 3, 4]
    kept = evenly(1000, 7)
    assert (kept[0], kept[-1], len(kept)) == (0, 999, 7)
    assert np.ptp(np.diff(kept)) <= 1
