"""Element sets for tests: a published one, and made ones in any format."""

import json
from datetime import UTC, datetime, timedelta

from sgp4.api import WGS72, Satrec
from sgp4.exporter import export_omm, export_tle

# The International Space Station on 2014-01-20, the example of the skyfield documentation.
ISS_TLE = """ISS (ZARYA)
1 25544U 98067A   14020.93268519  .00009878  00000-0  18200-3 0  5082
2 25544  51.6498 109.4756 0003572  55.9686 274.8005 15.49815350868473
"""

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)


def made_satellite(
    number: int,
    raan_deg: float,
    mean_anomaly_deg: float = 0.0,
    inclination_deg: float = 53.0,
    revolutions_per_day: float = 15.06,
    epoch: datetime = EPOCH,
) -> Satrec:
    """Return a satellite on a nearly circular orbit."""
    radians, two_pi = 0.017453292519943295, 6.283185307179586
    satrec = Satrec()
    satrec.sgp4init(
        WGS72,
        "i",
        number,
        (epoch - datetime(1949, 12, 31, tzinfo=UTC)) / timedelta(days=1),
        1e-5,
        0.0,
        0.0,
        1e-4,
        0.0,
        inclination_deg * radians,
        (mean_anomaly_deg % 360.0) * radians,
        revolutions_per_day * two_pi / 1440.0,
        (raan_deg % 360.0) * radians,
    )
    satrec.classification, satrec.intldesg, satrec.elnum, satrec.revnum = "U", "26001A", 1, 1
    return satrec


def tle_text(satellites: list[tuple[str, Satrec]]) -> str:
    """Write satellites as three-line element sets."""
    return "".join("\n".join((name, *export_tle(s))) + "\n" for name, s in satellites)


def omm_json(satellites: list[tuple[str, Satrec]]) -> str:
    """Write satellites as an OMM JSON array."""
    return json.dumps([export_omm(s, name) for name, s in satellites])
