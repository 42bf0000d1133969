"""Print the table of presets in docs/constellations.md: python scripts/constellation_table.py."""

import numpy as np

from fedorbit.build import build_constellation, build_plan, build_schedule
from fedorbit.config import load_config
from fedorbit.orbits.earth import EARTH_RADIUS_KM

PRESETS = (
    "starlink-shell1",
    "oneweb",
    "iridium-next",
    "iridium-next-tle",
    "walker-star",
    "planet-flock",
    "kepler-leo-fl",
    "paper",
    "paper-ring",
    "paper-hap",
    "paper-two-haps",
)
HEAD = (
    "| preset | satellites | orbits | altitude | stations "
    "| rounds in view | longest gap | rounds with no orbit |\n|---|---|---|---|---|---|---|---|"
)


def row(preset: str) -> str:
    """Describe one preset over its whole schedule."""
    config = load_config(preset)
    constellation = build_constellation(config)
    schedule = build_schedule(config, constellation, build_plan(config, constellation))
    one_orbit_km = constellation.motion.r_eci_km(np.linspace(0.0, 6000.0, 101))
    altitude_km = np.linalg.norm(one_orbit_km, axis=-1).mean(axis=0) - EARTH_RADIUS_KM
    shares = 100.0 * schedule.visible_rounds / schedule.rounds
    return (
        f"| `{preset}` | {constellation.satellites:,} "
        f"| {constellation.orbits} x {_span(constellation.satellites_per_orbit)} "
        f"| {_span(altitude_km)} km "
        f"| {len(config.stations)} | {_span(shares, 1)} % "
        f"| {schedule.tau_max} of {schedule.rounds} "
        f"| {100.0 * schedule.idle_rounds / schedule.rounds:.0f} % |"
    )


def _span(values: np.ndarray, digits: int = 0) -> str:
    low, high = f"{values.min():.{digits}f}", f"{values.max():.{digits}f}"
    return low if low == high else f"{low} to {high}"


def table() -> str:
    """Return the whole table as Markdown."""
    return "\n".join([HEAD, *map(row, PRESETS)])


if __name__ == "__main__":
    print(table())
