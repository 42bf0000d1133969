"""Location of a GeoTIFF image: latitude and longitude from its tags.

Read are a tie point with the size of a pixel, or a whole affine transformation, and two kinds of
coordinates: degrees, and Universal Transverse Mercator (UTM), zone by zone, on the ellipsoid WGS 84
or GRS 80 (which differ by 0.1 mm). Other projections give no place. All datums count as WGS 84: the
oldest that is read here, NAD 83, is off by two metres.

OGC 19-008r4, "OGC GeoTIFF Standard", 2019. Karney, "Transverse Mercator with an accuracy of a few
nanometers", Journal of Geodesy 85, 2011 (Krueger's series to sixth order).
"""

import math
import re
from typing import Any

from fedorbit.errors import DataError

PIXEL_SCALE, TIE_POINT, TRANSFORMATION = 33550, 33922, 34264
_KEYS, _METADATA = 34735, 42112
_MODEL_TYPE, _RASTER_TYPE, _GEOGRAPHIC, _PROJECTED = 1024, 1025, 2048, 3072
_PROJECTED_MODEL, _GEOGRAPHIC_MODEL = 1, 2
_PIXEL_IS_POINT = 2
# EPSG codes of UTM zones: of the first code and zone 1 north or south, so many zones.
_UTM = (
    (32601, 1, 60, True),  # WGS 84
    (32701, 1, 60, False),
    (26901, 1, 23, True),  # NAD 83
    (25828, 28, 11, True),  # ETRS 89
)
# EPSG codes of degrees: WGS 84, NAD 83, ETRS 89, GDA 94.
_DEGREES = (4326, 4269, 4258, 4283)


def centre(page: Any, where: str) -> tuple[float, float] | None:
    """Return latitude and longitude of the middle of an image in degrees; None if it has none."""
    keys = _short_keys(page)
    if not keys:
        return None
    position = _position(page, keys)
    if position is None:
        return None
    x, y = position
    if keys.get(_MODEL_TYPE) == _GEOGRAPHIC_MODEL and keys.get(_GEOGRAPHIC, 4326) in _DEGREES:
        longitude, latitude = x, y
    elif keys.get(_MODEL_TYPE) == _PROJECTED_MODEL and (zone := _zone(keys.get(_PROJECTED, 0))):
        latitude, longitude = utm_to_degrees(x, y, *zone)
    else:
        return None
    if not (abs(latitude) <= 90 and abs(longitude) <= 180):
        raise DataError(
            f"{where} says that it lies at latitude {latitude:.6g}, longitude {longitude:.6g}; "
            "allowed are -90 to 90 and -180 to 180; correct its tags, or give --geo FILE"
        )
    return latitude, longitude


def band_names(page: Any, bands: int) -> tuple[str, ...]:
    """Return the descriptions of the bands that GDAL wrote; empty unless all have one."""
    tag = page.tags.get(_METADATA)
    if tag is None or not isinstance(tag.value, str):
        return ()
    items = re.findall(r"<Item([^>]*)>([^<]*)</Item>", tag.value)
    found = {
        int(sample[1]): name.strip()
        for attributes, name in items
        if 'role="description"' in attributes
        and (sample := re.search(r'sample="(\d{1,4})"', attributes))
    }
    return tuple(found[band] for band in range(bands)) if set(found) == set(range(bands)) else ()


def _short_keys(page: Any) -> dict[int, int]:
    """Return the GeoKeys whose value is one integer."""
    tag = page.tags.get(_KEYS)
    if tag is None:
        return {}
    words = list(tag.value)
    rows = [words[i : i + 4] for i in range(4, len(words) - 3, 4)]
    return {key: value for key, location, count, value in rows if (location, count) == (0, 1)}


def _position(page: Any, keys: dict[int, int]) -> tuple[float, float] | None:
    """Return the middle of the image in the coordinates of its model."""
    # The first pixel reaches from 0 to 1 if pixels are areas, from -0.5 to 0.5 if they are points.
    half = 0.5 if keys.get(_RASTER_TYPE) == _PIXEL_IS_POINT else 0.0
    column, row = page.imagewidth / 2 - half, page.imagelength / 2 - half
    if matrix := _numbers(page, TRANSFORMATION, 16):
        return (
            matrix[0] * column + matrix[1] * row + matrix[3],
            matrix[4] * column + matrix[5] * row + matrix[7],
        )
    scale, tie = _numbers(page, PIXEL_SCALE, 3), _numbers(page, TIE_POINT, 6)
    if not scale or not tie:
        return None
    return tie[3] + (column - tie[0]) * scale[0], tie[4] - (row - tie[1]) * scale[1]


def _numbers(page: Any, code: int, count: int) -> tuple[float, ...] | None:
    """Return the first numbers of a tag if it has so many."""
    tag = page.tags.get(code)
    if tag is None or not isinstance(tag.value, tuple) or len(tag.value) < count:
        return None
    numbers = tuple(float(value) for value in tag.value[:count])
    return numbers if all(map(math.isfinite, numbers)) else None


def _zone(code: int) -> tuple[int, bool] | None:
    """Return the UTM zone of an EPSG code and whether it is north of the equator."""
    for first, zone, zones, north in _UTM:
        if first <= code < first + zones:
            return zone + code - first, north
    return None


# --- Universal Transverse Mercator --------------------------------------------------------------

_RADIUS_M, _FLATTENING = 6_378_137.0, 1 / 298.257223563
_SCALE = 0.9996  # on the central meridian
_FALSE_EASTING_M, _FALSE_NORTHING_M = 500_000.0, 10_000_000.0
_N = _FLATTENING / (2 - _FLATTENING)  # the third flattening
_ECCENTRICITY = math.sqrt(_FLATTENING * (2 - _FLATTENING))
# Radius of the sphere on which a meridian is as long as on the ellipsoid (Karney's equation 14).
_RECTIFYING_M = _RADIUS_M / (1 + _N) * (1 + _N**2 / 4 + _N**4 / 64 + _N**6 / 256)
# Coefficients of the inverse series, by powers of n (Karney's equation 36).
_BETA = tuple(
    sum(factor * _N**power for power, factor in enumerate(row, first))
    for first, row in (
        (1, (1 / 2, -2 / 3, 37 / 96, -1 / 360, -81 / 512, 96199 / 604800)),
        (2, (1 / 48, 1 / 15, -437 / 1440, 46 / 105, -1118711 / 3870720)),
        (3, (17 / 480, -37 / 840, -209 / 4480, 5569 / 90720)),
        (4, (4397 / 161280, -11 / 504, -830251 / 7257600)),
        (5, (4583 / 161280, -108847 / 3991680)),
        (6, (20648693 / 638668800,)),
    )
)


def utm_to_degrees(
    easting_m: float, northing_m: float, zone: int, north: bool
) -> tuple[float, float]:
    """Return latitude and longitude in degrees of a point in a UTM zone."""
    xi = (northing_m - (0.0 if north else _FALSE_NORTHING_M)) / (_SCALE * _RECTIFYING_M)
    eta = (easting_m - _FALSE_EASTING_M) / (_SCALE * _RECTIFYING_M)
    terms = list(enumerate(_BETA, 1))
    xi_sphere = xi - sum(b * math.sin(2 * j * xi) * math.cosh(2 * j * eta) for j, b in terms)
    eta_sphere = eta - sum(b * math.cos(2 * j * xi) * math.sinh(2 * j * eta) for j, b in terms)
    # Tangent of the conformal latitude; then Newton's method for that of the latitude.
    conformal = math.sin(xi_sphere) / math.hypot(math.sinh(eta_sphere), math.cos(xi_sphere))
    tangent = conformal
    for _ in range(3):
        sine = tangent / math.hypot(1.0, tangent)
        sigma = math.sinh(_ECCENTRICITY * math.atanh(_ECCENTRICITY * sine))
        guess = tangent * math.hypot(1.0, sigma) - sigma * math.hypot(1.0, tangent)
        slope = (1 - _ECCENTRICITY**2) * math.hypot(1.0, guess) * math.hypot(1.0, tangent)
        slope /= 1 + (1 - _ECCENTRICITY**2) * tangent**2
        tangent += (conformal - guess) / slope
    longitude = (
        6.0 * zone - 183.0 + math.degrees(math.atan2(math.sinh(eta_sphere), math.cos(xi_sphere)))
    )
    return math.degrees(math.atan(tangent)), (longitude + 180.0) % 360.0 - 180.0
