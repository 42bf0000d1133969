"""A constellation of your own: its contacts, its links between satellites, and two figures.

    python own_constellation.py

The same on the command line: `fedorbit orbits my.toml --links --out figures`.
"""

import numpy as np

import fedorbit as fo
from fedorbit.build import build_constellation, build_places, build_plan, build_schedule
from fedorbit.report.orbit_figures import ground_track_map, timeline

config = fo.load_config(
    "quickstart",
    [
        "constellation.planes=3",
        "constellation.satellites_per_plane=10",
        "constellation.altitude_km=780",
        "constellation.inclination_deg=86.4",
        "constellation.raan_spread_deg=180",  # a Walker star; 360 is a Walker delta
        'stations=[{name="Svalbard", latitude_deg=78.2, longitude_deg=15.4},'
        ' {name="Nairobi", latitude_deg=-1.3, longitude_deg=36.8}]',
        "network.isl=line-of-sight",
        "schedule.rounds=144",  # 12 hours of 5 minutes
    ],
)
constellation, places = build_constellation(config), build_places(config)
plan = build_plan(config, constellation)  # contacts and links, in seconds from the start

contacts, names = plan.with_servers, constellation.satellite_names
for number, place in enumerate(places):
    minutes = contacts.duration_s[contacts.server == number] / 60.0
    print(f"{place.name}: {len(minutes)} contacts of {minutes.mean():.1f} min on average")
for contact in contacts.during(0.0, 1800.0)[:5]:
    place = places[contact.server - constellation.satellites]
    begin, end = contact.begin_s / 60.0, contact.end_s / 60.0
    print(f"  {names[contact.satellite]} over {place.name}: minute {begin:.1f} to {end:.1f}")

links, orbit = plan.between_satellites, constellation.orbit_of_satellite
within = orbit[links.first] == orbit[links.second]
print(f"links within orbits: {np.sum(within)}, between orbits: {np.sum(~within)}")

schedule = build_schedule(config, constellation, plan)
print(f"longest gap of an orbit: {schedule.tau_max} rounds of 5 min")
ground_track_map(constellation, places, duration_s=6000.0).savefig("map.png", dpi=150)
timeline(schedule).savefig("timeline.png", dpi=150)
