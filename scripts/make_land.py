"""Write src/fedorbit/report/land.json from the `land-110m.json` of the npm package world-atlas.

The coastlines are Natural Earth's 1:110m physical land, which is in the public domain.
Usage: npm pack world-atlas@2.0.2 && tar xf world-atlas-2.0.2.tgz
       python scripts/make_land.py package/land-110m.json
"""

import json
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/fedorbit/report/land.json"


def main(source: Path) -> None:
    """Decode the TopoJSON arcs into rings of [longitude, latitude] in degrees."""
    topology = json.loads(source.read_text())
    scale, translate = topology["transform"]["scale"], topology["transform"]["translate"]
    arcs = []
    for arc in topology["arcs"]:
        x = y = 0
        points = []
        for dx, dy in arc:
            x, y = x + dx, y + dy
            points.append([x * scale[0] + translate[0], y * scale[1] + translate[1]])
        arcs.append(points)
    rings = []
    for geometry in topology["objects"]["land"]["geometries"]:
        for polygon in geometry["arcs"]:
            ring: list[list[float]] = []
            for index in polygon[0]:
                points = arcs[index] if index >= 0 else arcs[~index][::-1]
                ring.extend(points[1:] if ring else points)
            rings.extend(unwrapped(ring))
    note = "Natural Earth 1:110m land, public domain, by way of the npm package world-atlas 2.0.2"
    text = json.dumps({"note": note, "rings_longitude_latitude_deg": rings}, separators=(",", ":"))
    TARGET.write_text(text + "\n")


def unwrapped(ring: list[list[float]]) -> list[list[list[float]]]:
    """Make longitudes continuous; land across the date line appears at both edges of a map."""
    turn = 0.0
    continuous = []
    for before, (longitude, latitude) in zip([ring[0], *ring], ring, strict=False):
        turn -= 360.0 * round((longitude - before[0]) / 360.0)
        continuous.append([longitude + turn, latitude])
    shifts = [0.0]
    shifts += [-360.0] if max(lon for lon, _ in continuous) > 180.0 else []
    shifts += [360.0] if min(lon for lon, _ in continuous) < -180.0 else []
    return [[[round(lon + s, 2), round(lat, 2)] for lon, lat in continuous] for s in shifts]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
