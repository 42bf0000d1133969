"""A shell like Starlink's: 72 planes of 22, 10 stations, a day in rounds of 10 s and of 300 s.

Prints seconds and peak memory for the contact plan and for the visibility matrix taken from it.
Usage: python benchmarks/orbits_scale.py
"""

import resource
import time

from fedorbit.orbits.constellation import walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import plan_of
from fedorbit.orbits.visibility import round_times_s

PLACES_DEG = ((51, 0), (40, -100), (35, 139), (-33, 151), (60, 25), (0, 30), (-20, -45), (20, 75),
              (64, -21), (-45, 170))  # fmt: skip


def main() -> None:
    constellation = walker(72, 22, 17, 550.0, 53.0)
    stations = [Place(f"{lat},{lon}", lat, lon, 25.0) for lat, lon in PLACES_DEG]
    for rounds, round_s in ((288, 300.0), (8640, 10.0)):
        begin = time.perf_counter()
        found = find_contacts(constellation, stations, rounds, round_s)
        plan = plan_of(found, constellation.satellites, stations, rounds * round_s)
        middle = time.perf_counter()
        times_s = round_times_s(rounds, round_s)
        visible = plan.orbits_in_view(times_s, constellation.orbit_of_satellite)
        end = time.perf_counter()
        print(f"{rounds} rounds of {round_s:g} s: {len(plan)} contacts in {middle - begin:.1f} s,")
        print(f"  visibility of {visible.size} round-orbit pairs in {end - middle:.2f} s")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process: {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
