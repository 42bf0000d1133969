"""A constellation and its contacts as CZML, the JSON that Cesium shows on a globe.

Positions are in the Earth-fixed frame, sampled evenly and interpolated by the viewer: an inertial
frame would be right only if the viewer's Earth turned exactly as it does here. At a step of five
minutes the interpolation is good to metres, except where element sets of a satellite take over from
each other: a jump there is drawn as a slide. A line between two nodes is drawn while they are in
contact. A document has a limit of positions and contacts; a longer period is cut, or refused if it
was asked for.
"""

import colorsys
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from fedorbit.errors import ConfigError
from fedorbit.files import replacing
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import EARTH_MU_KM3_S2, Floats
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import KINDS, ContactPlan
from fedorbit.progress import Progress, SilentProgress

SUFFIX = ".czml"
STEPS_S = (60, 120, 180, 240, 300)
MOST_POSITIONS, MOST_CONTACTS = 500_000, 250_000
"""About 35 MB, which a viewer opens in seconds."""
MOST_PATHS = 100
"""Satellites with a path and a label of their own; of more, the first of each orbit has a path."""
DEGREE = 7
"""Degree of the interpolating polynomial: at 300 s and 200 km it is 30 m off at the ends."""
NO_START = datetime(2000, 1, 1, tzinfo=UTC)
"""Moment of t = 0 of a constellation without one; its Earth turns from 0 at that moment."""
COLOURS = {"ground": (90, 220, 120), "platform": (255, 170, 60), "isl": (150, 170, 200)}

Packet = dict[str, Any]


@dataclass(frozen=True)
class Clip:
    """Part of a schedule that a document shows."""

    duration_s: float
    step_s: int
    horizon_s: float

    @property
    def is_cut(self) -> bool:
        """True if the document ends before the schedule."""
        return self.duration_s < self.horizon_s


def check_czml_name(path: Path) -> None:
    """Refuse a file that a viewer would not take for CZML."""
    if path.suffix.lower() != SUFFIX:
        raise ConfigError(f"a CZML document needs a name that ends in {SUFFIX}, got {str(path)!r}")


def clip(plan: ContactPlan, hours: float | None = None) -> Clip:
    """Choose the finest step and the longest period that fit; hours that do not are an error."""
    most_s = float(STEPS_S[-1]) * (MOST_POSITIONS // plan.satellites - 2)
    if most_s <= 0:
        raise ConfigError(
            f"a CZML document has at most {MOST_POSITIONS} positions, too few for "
            f"{plan.satellites} satellites; show a smaller constellation"
        )
    if len(plan) > MOST_CONTACTS:
        most_s = min(most_s, float(plan.begin_s[MOST_CONTACTS]))
    asked_s = plan.horizon_s if hours is None else min(3600.0 * hours, plan.horizon_s)
    if hours is not None and asked_s > most_s:
        raise ConfigError(
            f"--czml-hours must be at most {most_s / 3600.0:.2f} for {plan.satellites} satellites "
            f"and their contacts, got {hours:g}; a document has at most {MOST_POSITIONS} positions "
            f"and {MOST_CONTACTS} contacts"
        )
    duration_s = min(asked_s, most_s)
    fitting = [s for s in STEPS_S if plan.satellites * (duration_s // s + 2) <= MOST_POSITIONS]
    return Clip(duration_s, fitting[0], plan.horizon_s)


def write_czml(
    path: Path,
    constellation: Constellation,
    places: Sequence[Place],
    plan: ContactPlan,
    shown: Clip,
    progress: Progress | None = None,
) -> Path:
    """Write part of a schedule as a document that Cesium can play."""
    progress = progress or SilentProgress()
    times_s = np.arange(0.0, shown.duration_s + shown.step_s, shown.step_s)
    calendar = _Calendar(constellation.start or NO_START, shown.duration_s)
    pairs = _contacts(plan, shown.duration_s)
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as file:
        progress.start("writing CZML", constellation.satellites + len(pairs), "objects")
        try:
            _write_packet(file, _document(calendar, path.stem), first=True)
            for number in range(constellation.orbits):
                _write_packet(file, {"id": f"orbit/{number}", "name": f"orbit {number}"})
            for number, place in enumerate(places):
                _write_packet(file, _place(number, place))
            for packet in _satellites(constellation, times_s, calendar):
                _write_packet(file, packet)
                progress.advance(1)
            names = (*constellation.satellite_names, *(place.name for place in places))
            for (first, second, kind), intervals in pairs.items():
                ends = [(_node(plan, n), names[n]) for n in (first, second)]
                _write_packet(file, _line(ends, KINDS[kind], intervals, calendar))
                progress.advance(1)
            file.write("\n]\n")
        finally:
            progress.finish()
    return path


@dataclass(frozen=True)
class _Calendar:
    """Seconds since the start as moments."""

    start: datetime
    duration_s: float

    def moment(self, time_s: float) -> str:
        text = (self.start + timedelta(seconds=time_s)).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")

    def interval(self, begin_s: float, end_s: float) -> str:
        return f"{self.moment(begin_s)}/{self.moment(end_s)}"

    @property
    def everything(self) -> str:
        return self.interval(0.0, self.duration_s)


def _write_packet(file: TextIO, packet: Packet, first: bool = False) -> None:
    """Write one packet at a time: the document as a whole need not fit into memory."""
    file.write("[\n" if first else ",\n")
    file.write(json.dumps(packet, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def _document(calendar: _Calendar, name: str) -> Packet:
    return {
        "id": "document",
        "name": name,
        "version": "1.0",
        "clock": {
            "interval": calendar.everything,
            "currentTime": calendar.moment(0.0),
            "multiplier": 60,
            "range": "LOOP_STOP",
            "step": "SYSTEM_CLOCK_MULTIPLIER",
        },
    }


def _place(number: int, place: Place) -> Packet:
    colour = _rgba(COLOURS[place.role])
    return {
        "id": f"place/{number}",
        "name": place.name,
        "position": {
            "cartographicDegrees": [
                place.longitude_deg,
                place.latitude_deg,
                1000.0 * place.altitude_km,
            ]
        },
        "point": {"pixelSize": 8, "color": colour},
        "label": _label(place.name, colour),
    }


def _satellites(
    constellation: Constellation, times_s: Floats, calendar: _Calendar
) -> Iterator[Packet]:
    r_ecef_m = np.rint(1000.0 * constellation.r_ecef_km(times_s)).astype(np.int64)
    orbit_of_satellite = constellation.orbit_of_satellite.tolist()
    for number, name in enumerate(constellation.satellite_names):
        orbit = orbit_of_satellite[number]
        colour = _orbit_colour(orbit)
        samples = np.column_stack((times_s.astype(np.int64), r_ecef_m[:, number]))
        packet: Packet = {
            "id": f"satellite/{number}",
            "name": name,
            "parent": f"orbit/{orbit}",
            "availability": calendar.everything,
            "position": {
                "epoch": calendar.moment(0.0),
                "referenceFrame": "FIXED",
                "interpolationAlgorithm": "LAGRANGE",
                "interpolationDegree": min(DEGREE, len(times_s) - 1),
                "cartesian": samples.ravel().tolist(),
            },
            "point": {"pixelSize": 5, "color": colour},
        }
        few = constellation.satellites <= MOST_PATHS
        if few or number == 0 or orbit != orbit_of_satellite[number - 1]:
            packet["path"] = _path(float(np.linalg.norm(r_ecef_m[0, number])) / 1000.0, colour)
        if few:
            packet["label"] = _label(name, colour)
        yield packet


def _path(radius_km: float, colour: Packet) -> Packet:
    """Return the look of a path: half a revolution before, and half one after the satellite."""
    half_s = float(np.pi * np.sqrt(radius_km**3 / EARTH_MU_KM3_S2))
    return {
        "leadTime": round(half_s),
        "trailTime": round(half_s),
        "resolution": 120,
        "width": 1,
        "material": {"solidColor": {"color": colour}},
    }


def _contacts(
    plan: ContactPlan, duration_s: float
) -> dict[tuple[int, int, int], list[tuple[float, float]]]:
    """Return the intervals of each pair of nodes and kind, cut at the end of what is shown."""
    pairs: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    columns = (plan.first, plan.second, plan.kind, plan.begin_s, plan.end_s)
    for first, second, kind, begin_s, end_s in zip(*(c.tolist() for c in columns), strict=True):
        if begin_s < duration_s:
            pairs.setdefault((first, second, kind), []).append((begin_s, min(end_s, duration_s)))
    return pairs


def _line(
    ends: Sequence[tuple[str, str]],
    kind: str,
    intervals: Sequence[tuple[float, float]],
    calendar: _Calendar,
) -> Packet:
    (first, first_name), (second, second_name) = ends
    return {
        "id": f"contact/{first}/{second}",
        "name": f"{first_name} - {second_name}",
        "availability": [calendar.interval(*interval) for interval in intervals],
        "polyline": {
            "positions": {"references": [f"{first}#position", f"{second}#position"]},
            "arcType": "NONE",
            "width": 1,
            "material": {"solidColor": {"color": _rgba(COLOURS[kind])}},
        },
    }


def _node(plan: ContactPlan, number: int) -> str:
    """Return the id of a node: a satellite, or a server after all of them."""
    satellites = plan.satellites
    return f"satellite/{number}" if number < satellites else f"place/{number - satellites}"


def _label(text: str, colour: Packet) -> Packet:
    return {
        "text": text,
        "font": "11pt sans-serif",
        "fillColor": colour,
        "horizontalOrigin": "LEFT",
        "pixelOffset": {"cartesian2": [8, 0]},
    }


def _orbit_colour(orbit: int) -> Packet:
    """Return a colour; steps of the golden section keep neighbouring orbits apart."""
    red, green, blue = colorsys.hsv_to_rgb(orbit * 0.6180339887 % 1.0, 0.65, 1.0)
    return _rgba((round(255 * red), round(255 * green), round(255 * blue)))


def _rgba(colour: tuple[int, int, int]) -> Packet:
    return {"rgba": [*colour, 255]}
