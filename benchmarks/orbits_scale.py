"""A shell like Starlink's: 72 planes of 22, 10 stations, a day in steps of 10 s.

Prints seconds and peak memory for the visibility matrix and for all contacts.
Usage: python benchmarks/orbits_scale.py
"""

import resource
import time

from fedorbit.orbits.constellation import walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.visibility import GroundStation, compute_schedule, round_times_s

PLACES_DEG = ((51, 0), (40, -100), (35, 139), (-33, 151), (60, 25), (0, 30), (-20, -45), (20, 75),
              (64, -21), (-45, 170))  # fmt: skip


def main() -> None:
    constellation = walker(72, 22, 17, 550.0, 53.0)
    stations = [GroundStation(f"{lat},{lon}", lat, lon, 25.0) for lat, lon in PLACES_DEG]
    begin = time.perf_counter()
    schedule = compute_schedule(constellation, stations, round_times_s(8640, 10.0))
    middle = time.perf_counter()
    contacts = find_contacts(constellation, stations, 86400.0)
    end = time.perf_counter()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"visibility of {schedule.visible.size} round-orbit pairs: {middle - begin:.1f} s")
    print(f"{len(contacts)} contacts: {end - middle:.1f} s")
    print(f"peak memory of the process: {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
