"""A run holds few models per orbit, however many orbits there are."""

import pytest
from benchmarks.memory_per_orbit import models_per_orbit


@pytest.mark.parametrize(("method", "most"), [("fedavg", 4), ("fedorbit", 6)])
def test_models_per_orbit_at_the_peak(method: str, most: float) -> None:
    """State before and after a round, what was trained, and little else; no state of the past."""
    assert models_per_orbit(method, planes=120, rounds=3, size=16) < most
