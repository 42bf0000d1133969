"""Links of a shell like Starlink's, 72 planes of 22, for a day: four terminals a satellite.

Prints processor seconds for the search and for the routes of a message from one satellite to all
nodes, and the peak memory of both.
Usage: python benchmarks/links_scale.py
"""

import resource
import time

import numpy as np

from fedorbit.build import build_constellation, build_plan
from fedorbit.config import load_config
from fedorbit.orbits.crosslinks import find_links
from fedorbit.orbits.plan import with_links
from fedorbit.orbits.routing import ContactGraph, HopTimes
from fedorbit.orbits.sight import LinkSettings


def main() -> None:
    config = load_config("starlink-shell1")
    constellation = build_constellation(config)
    rounds, round_s = config.schedule.rounds, config.schedule.round_s
    begin = time.process_time()
    links = find_links(constellation, LinkSettings(terminals=4), rounds, round_s)
    end = time.process_time()
    orbit = constellation.orbit_of_satellite
    in_plane = orbit[links.first] == orbit[links.second]
    print(f"{rounds} rounds of {round_s:g} s: {len(links)} links in {end - begin:.1f} s,")
    for name, chosen in (("in the plane", in_plane), ("across planes", ~in_plane)):
        at_a_time = links.duration_s[chosen].sum() / (rounds * round_s)
        median_s = np.median(links.duration_s[chosen])
        print(f"  {name} {at_a_time:.0f} at a time, of {median_s:.0f} s (median)")
    graph = ContactGraph(with_links(build_plan(config, constellation), links), HopTimes(1, 1, 1))
    graph.earliest_arrival(0, 0.0)
    begin = time.process_time()
    for source in range(0, constellation.satellites, 100):
        graph.earliest_arrival(source, 0.0)
    seconds = (time.process_time() - begin) / len(range(0, constellation.satellites, 100))
    print(f"earliest arrival from one satellite at all nodes in {1000 * seconds:.0f} ms")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process: {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
