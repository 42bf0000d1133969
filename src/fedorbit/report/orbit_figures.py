"""Pictures of a constellation: when each orbit is in view, and where its satellites fly."""

import json
from collections.abc import Sequence
from importlib import resources

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import EARTH_RADIUS_KM, Floats, latitude_longitude_deg, unit_vectors
from fedorbit.orbits.places import Place
from fedorbit.orbits.visibility import Schedule
from fedorbit.report import style

TRACK_STEP_S = 30.0
MAX_TRACKS = 60
"""More tracks than this hide the map; larger constellations show every n-th satellite."""


@style.plain_text
def timeline(schedule: Schedule) -> Figure:
    """Draw V[round, orbit]: one row per orbit, filled where it is in view."""
    orbits, rounds = schedule.orbits, schedule.rounds
    figure = style.new_figure(8.0, min(1.4 + 0.28 * orbits, 8.0))
    axes = figure.subplots()
    labelled = orbits <= 30
    image = np.where(schedule.visible, np.arange(orbits) % len(style.PALETTE) + 1, 0).T
    axes.imshow(
        image,
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap([style.SEA, *style.PALETTE]),
        vmin=0,
        vmax=len(style.PALETTE),
        extent=(-0.5, rounds - 0.5, orbits - 0.5, -0.5),
    )
    if labelled:
        shares = 100.0 * schedule.visible_rounds / rounds
        labels = [f"orbit {o}  {share:4.1f} %" for o, share in enumerate(shares)]
        axes.set_yticks(range(orbits), labels)
        axes.hlines(np.arange(1, orbits) - 0.5, -0.5, rounds - 0.5, color="white", linewidth=2)
    else:
        axes.set_ylabel("orbit")
    axes.set_xlabel("round")
    axes.spines[:].set_visible(False)
    axes.set_title(
        f"Orbits in view: {100.0 * schedule.idle_rounds / rounds:.1f} % of rounds have none, "
        f"longest gap of an orbit {schedule.tau_max} rounds",
        loc="left",
        fontsize=9,
    )
    if len(schedule.times_s) > 1:
        round_h = float(schedule.times_s[1] - schedule.times_s[0]) / 3600.0
        hours = axes.secondary_xaxis(
            "top", (lambda x: np.multiply(x, round_h), lambda x: np.divide(x, round_h))
        )
        hours.set_xlabel("hours since start")
    return figure


@style.plain_text
def ground_track_map(
    constellation: Constellation, stations: Sequence[Place], duration_s: float
) -> Figure:
    """Draw ground tracks, satellites at the start, stations and the circles they can see."""
    figure = style.new_figure(8.0, 4.6)
    axes = figure.subplots()
    axes.set_facecolor(style.SEA)
    axes.add_collection(PolyCollection(land_rings(), facecolor=style.LAND, edgecolor="none"))
    times_s = np.arange(0.0, duration_s + TRACK_STEP_S, TRACK_STEP_S)
    drawn = _drawn_satellites(constellation)
    r_ecef_km = constellation.r_ecef_km_at(
        np.tile(drawn, len(times_s)), np.repeat(times_s, len(drawn))
    ).reshape(len(times_s), len(drawn), 3)
    latitude_deg, longitude_deg = latitude_longitude_deg(r_ecef_km)
    for column, satellite in enumerate(drawn):
        orbit = int(constellation.orbit_of_satellite[satellite])
        segments = _unwrapped_segments(longitude_deg[:, column], latitude_deg[:, column])
        axes.add_collection(
            LineCollection(segments, colors=style.colour(orbit), linewidths=0.9, alpha=0.75)
        )
        axes.plot(
            longitude_deg[0, column],
            latitude_deg[0, column],
            "o",
            color=style.colour(orbit),
            markersize=4.5,
            markeredgecolor="white",
            markeredgewidth=0.6,
        )
    altitude_km = float(np.linalg.norm(r_ecef_km[0], axis=-1).mean()) - EARTH_RADIUS_KM
    for station in stations:
        circle = _visibility_circle(station, altitude_km)
        axes.add_collection(LineCollection(circle, colors="black", linewidths=1.0))
        axes.plot(
            station.longitude_deg, station.latitude_deg, "^", color="black", markersize=6, zorder=5
        )
        axes.annotate(
            station.name,
            (station.longitude_deg, station.latitude_deg),
            textcoords="offset points",
            xytext=(5, 4),
            fontsize=8,
        )
    axes.set(xlim=(-180, 180), ylim=(-90, 90), xlabel="longitude (deg)", ylabel="latitude (deg)")
    axes.set_xticks(range(-180, 181, 60))
    axes.set_yticks(range(-90, 91, 30))
    axes.set_aspect("equal")
    axes.grid(color=style.GRID, linewidth=0.4)
    _legend(axes, constellation)
    all_of_them = len(drawn) == constellation.satellites
    who = "Ground tracks" if all_of_them else f"{len(drawn)} of {constellation.satellites} tracks"
    axes.set_title(
        f"{who} over {duration_s / 60.0:.0f} minutes, satellites at the start, "
        "and the area in which a station sees them",
        loc="left",
        fontsize=9,
    )
    return figure


def land_rings() -> list[Floats]:
    """Coastlines as rings of longitude and latitude in degrees."""
    text = (resources.files("fedorbit.report") / "land.json").read_text("utf-8")
    return [np.array(ring) for ring in json.loads(text)["rings_longitude_latitude_deg"]]


def _drawn_satellites(constellation: Constellation) -> NDArray[np.int64]:
    stride = -(-constellation.satellites // MAX_TRACKS)
    return np.arange(0, constellation.satellites, stride)


def _unwrapped_segments(longitude_deg: Floats, latitude_deg: Floats) -> list[Floats]:
    """Cut a line where it jumps from one edge of the map to the other."""
    points = np.column_stack((longitude_deg, latitude_deg))
    return np.split(points, np.flatnonzero(np.abs(np.diff(longitude_deg)) > 180.0) + 1)


def _visibility_circle(station: Place, altitude_km: float) -> list[Floats]:
    """Outline of the sub-satellite points from which a satellite reaches the minimum elevation."""
    radius_rad = station.reach_rad(EARTH_RADIUS_KM + altitude_km)
    zenith = unit_vectors(station.latitude_deg, station.longitude_deg)
    east = unit_vectors(0.0, station.longitude_deg + 90.0)
    north = np.cross(zenith, east)
    angle = np.linspace(0.0, 2.0 * np.pi, 181)[:, None]
    ring = np.cos(radius_rad) * zenith + np.sin(radius_rad) * (
        np.cos(angle) * east + np.sin(angle) * north
    )
    latitude_deg, longitude_deg = latitude_longitude_deg(ring)
    return _unwrapped_segments(longitude_deg, latitude_deg)


def _legend(axes: Axes, constellation: Constellation) -> None:
    if constellation.orbits <= len(style.PALETTE):
        handles = [
            Line2D([], [], color=style.colour(o), label=f"orbit {o}")
            for o in range(constellation.orbits)
        ]
        axes.legend(handles=handles, loc="lower left", ncols=5, fontsize=7, framealpha=0.9)
