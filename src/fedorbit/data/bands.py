"""Bands of images: their names, and which of them to keep, in which order.

A choice such as `4,3,2` counts bands from 1; `B04,B03,B02` names them. Names come from the files,
where GDAL wrote them, or from the sensor that the user states. None is guessed from the number of
bands: EuroSAT's thirteen are in another order than Sentinel-2's.
"""

from fedorbit.errors import DataError, closest

_SENTINEL_2 = (
    "B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12",
)  # fmt: skip
_SO2SAT = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
EUROSAT = (*(name for name in _SENTINEL_2 if name != "B8A"), "B8A")

SENSORS: dict[str, tuple[str, ...]] = {
    "sentinel-2": _SENTINEL_2,  # level 1C, in the order of its products and of Earth Engine
    "sentinel-2-l2a": tuple(name for name in _SENTINEL_2 if name != "B10"),
    "eurosat": EUROSAT,
    "so2sat": _SO2SAT,
    "landsat-8": tuple(f"B{number}" for number in range(1, 12)),  # and 9
    "landsat-8-sr": tuple(f"B{number}" for number in range(1, 8)),  # surface reflectance
    "planetscope-4": ("blue", "green", "red", "nir"),
    "naip": ("red", "green", "blue", "nir"),
}
"""Names of the bands in a file, in order, by sensor or dataset."""

PRESETS = {"so2sat": ",".join(_SO2SAT), "rgb": "B04,B03,B02"}
"""Choices of Sentinel-2's bands with a name of their own."""

_COLOURS = (("B04", "B03", "B02"), ("red", "green", "blue"))


def named(sensor: str | None, in_file: tuple[str, ...], count: int, where: str) -> tuple[str, ...]:
    """Return the names of an image's bands: the sensor's, else the file's, else none."""
    if sensor is None:
        return in_file
    if sensor not in SENSORS:
        near = closest(sensor.lower(), SENSORS)
        hint = f"did you mean {near!r}? " if near else ""
        raise DataError(f"there is no sensor {sensor!r}; {hint}known are {', '.join(SENSORS)}")
    if len(SENSORS[sensor]) != count:
        raise DataError(
            f"{where} has {count} band(s), but those of {sensor} are {len(SENSORS[sensor])}: "
            f"{', '.join(SENSORS[sensor])}; choose another --sensor, or bands by number"
        )
    return SENSORS[sensor]


def chosen(
    wanted: str | None, names: tuple[str, ...], count: int, where: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the places of the bands to keep, from 0, and their names (empty without any).

    No places stand for all bands in the order of the file.

    >>> chosen("3,1", ("red", "green", "blue"), 3, "x.tif")
    ((2, 0), ('blue', 'red'))
    >>> chosen("b4,B8A", EUROSAT, 13, "x.tif")
    ((3, 12), ('B04', 'B8A'))
    """
    if wanted is None:
        return (), names
    asked = [part.strip() for part in PRESETS.get(wanted.strip().lower(), wanted).split(",")]
    places = tuple(_place(part, names, count, where) for part in asked)
    if twice := [
        part for part, place in zip(asked, places, strict=True) if places.count(place) > 1
    ]:
        raise DataError(f"--bands names {twice[0]} twice; name every band once")
    kept = tuple(names[place] for place in places) if names else ()
    return () if places == tuple(range(count)) else places, kept


def colours(names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return the places of red, green and blue among named bands, if all are there."""
    for trio in _COLOURS:
        if set(trio) <= set(names):
            return tuple(names.index(name) for name in trio)
    return None


def _place(part: str, names: tuple[str, ...], count: int, where: str) -> int:
    if part.isdecimal() and len(part) < 6:
        if not 1 <= int(part) <= count:
            raise DataError(f"--bands has {part}, but {where} has bands 1 to {count}")
        return int(part) - 1
    same = [place for place, name in enumerate(names) if _key(name) == _key(part)]
    if len(same) == 1:
        return same[0]
    if not names:
        raise DataError(
            f"--bands has {part[:40]!r}, but {where} does not name its {count} band(s); "
            f"give their numbers, or --sensor: {', '.join(SENSORS)}"
        )
    raise DataError(f"--bands has {part[:40]!r}, but the bands of {where} are {', '.join(names)}")


def _key(name: str) -> str:
    """Return a name for comparison: `b4` is `B04`."""
    lower = name.lower()
    return f"b{lower[1:].lstrip('0')}" if lower[:1] == "b" and lower[1:2].isdigit() else lower
