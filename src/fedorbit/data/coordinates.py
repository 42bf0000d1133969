"""Coordinates of images from a CSV file: columns `name`, `latitude_deg` and `longitude_deg`.

A name is an image file's name with or without its suffix, alone (`Forest_12`) or after its class
(`Forest/Forest_12`).
"""

import csv
import math
from collections import Counter
from io import StringIO
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from fedorbit.data.imagetree import ImageTree
from fedorbit.data.limits import Limits
from fedorbit.errors import DataError
from fedorbit.inputs import read_regular

_COORDINATES_BYTES = 1 << 27  # of a CSV file: 2 million rows of 64 characters


def find_beside(path: Path, file_name: str) -> Path | None:
    """Return the file of this name in the folder `path` or beside `path`, if there is one."""
    for folder in (path, path.parent):
        if (found := folder / file_name).is_file():
            return found
    return None


def locate(tree: ImageTree, geo: Path) -> NDArray[np.float64]:
    """Look up every image of a tree in a file: `[n, 2]` latitude and longitude, NaN if unknown."""
    coordinates = read_coordinates(geo, tree.limits)
    stems = Counter(PurePosixPath(file.name).stem for file in tree.files)
    found = np.full((len(tree.files), 2), np.nan)
    for row, file in enumerate(tree.files):
        stem = PurePosixPath(file.name).stem
        class_name = tree.class_names[file.label]
        for key in (f"{class_name}/{file.name}", f"{class_name}/{stem}", file.name, stem):
            if key in coordinates:
                if stems[stem] > 1 and "/" not in key:
                    raise DataError(
                        f"{geo} names {key}, but {stems[stem]} images have this name; "
                        f"write {class_name}/{stem} there"
                    )
                found[row] = coordinates[key]
                break
    if np.isnan(found).all():
        raise DataError(
            f"{geo} names no image of {tree.path}; its column `name` must hold image file names, "
            f"such as {PurePosixPath(tree.files[0].name).stem}"
        )
    return found


def read_coordinates(geo: Path, limits: Limits) -> dict[str, tuple[float, float]]:
    """Return latitude and longitude in degrees by name from a CSV file."""
    coordinates: dict[str, tuple[float, float]] = {}
    try:
        text = read_regular(geo, _COORDINATES_BYTES).decode("utf-8-sig")
        with StringIO(text, newline="") as file:
            rows = csv.DictReader(file, strict=True)
            wanted = ("name", "latitude_deg", "longitude_deg")
            if absent := [column for column in wanted if column not in (rows.fieldnames or ())]:
                raise DataError(
                    f"{geo}, line 1: no column {', '.join(absent)}; needed are {', '.join(wanted)}"
                )
            for row in rows:
                where = f"{geo}, line {rows.line_num}"
                name, latitude, longitude = (row[column] for column in wanted)
                if not name or name in coordinates:
                    shown = repr(name and name[:40])
                    raise DataError(f"{where}: name {shown} is empty or stands there twice")
                limits.require_files(str(geo), "rows", len(coordinates) + 1)
                coordinates[name] = (
                    _degrees(latitude, 90, f"{where}: latitude_deg"),
                    _degrees(longitude, 180, f"{where}: longitude_deg"),
                )
    except csv.Error as error:
        raise DataError(
            f"{geo}, line {rows.reader.line_num}: {error}; write a plain CSV file"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{geo} is not UTF-8 text ({error}); write a plain CSV file") from error
    except OSError as error:
        raise DataError(
            f"{geo} cannot be read ({error.strerror}); give the coordinate file with --geo"
        ) from error
    return coordinates


def _degrees(text: str | None, limit: int, what: str) -> float:
    """Return an angle that lies within plus or minus `limit`."""
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not abs(value) <= limit:
        shown = repr(text and text[:40])
        raise DataError(f"{what} is {shown}; it must be a number from -{limit} to {limit}")
    return value
