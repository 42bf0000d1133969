"""NWPU-RESISC45: 31,500 aerial images of 256x256 pixels in 45 classes of scenes.

The official `.rar` (its members are compressed, so an unpacking program is needed), the mirrored
`.zip`, or either unpacked. Images are shrunk to 32x32 pixels, antialiased.

Cheng, Han and Lu, "Remote Sensing Image Scene Classification: Benchmark and State of the Art",
Proceedings of the IEEE 105(10), 2017.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedorbit.data.folder import ImageRule, image_stream, open_images, probe
from fedorbit.data.limits import Limits
from fedorbit.data.stream import ImageStream
from fedorbit.errors import DataError

CLASS_NAMES = (
    "airplane", "airport", "baseball_diamond", "basketball_court", "beach", "bridge", "chaparral",
    "church", "circular_farmland", "cloud", "commercial_area", "dense_residential", "desert",
    "forest", "freeway", "golf_course", "ground_track_field", "harbor", "industrial_area",
    "intersection", "island", "lake", "meadow", "medium_residential", "mobile_home_park",
    "mountain", "overpass", "palace", "parking_lot", "railway", "railway_station",
    "rectangular_farmland", "river", "roundabout", "runway", "sea_ice", "ship", "snowberg",
    "sparse_residential", "stadium", "storage_tank", "tennis_court", "terrace",
    "thermal_power_station", "wetland",
)  # fmt: skip
TITLE = "NWPU-RESISC45"
AS_FOUND = "as-found"
SAMPLES = 31_500
ORIGINAL_SIDE = 256
SIDE = 32


@contextmanager
def open_stream(
    path: Path, *, limits: Limits | None = None, size: int = SIDE, classes: str | None = None
) -> Iterator[ImageStream]:
    """Read NWPU-RESISC45, every image resized to a square of `size` pixels.

    `classes` allows a part of it: so many of its classes, or those `as-found`; other folders are
    left out, and images may have been shrunk before.
    """
    with open_images(path, limits) as tree:
        if classes is None:
            part = f", or accept a part of its classes with --classes {AS_FOUND}"
            tree.require_classes(CLASS_NAMES, "RESISC45", part)
            rule = ImageRule.originals("RESISC45", ORIGINAL_SIDE, size)
            yield image_stream(tree, rule, notes=tree.count_note(SAMPLES))
            return
        tree = tree.only_classes(CLASS_NAMES)
        found = len(tree.class_names)
        if found < 2 or classes not in (AS_FOUND, str(found)):
            raise DataError(
                f"{path} holds {found} of the {len(CLASS_NAMES)} classes of RESISC45, and "
                f"--classes is {classes}; allowed are {AS_FOUND} and the number of classes there, "
                "at least 2"
            )
        first = probe(tree)
        rule = ImageRule(
            channels=3,
            width=first.width,
            height=first.height,
            resize_to=size,
            expected=f"the first one is {first.width}x{first.height} with 3 channels",
            remedy="give images of one size",
        )
        notes = [] if found == len(CLASS_NAMES) else [f"{found} of {len(CLASS_NAMES)} classes"]
        if (first.width, first.height) != (ORIGINAL_SIDE, ORIGINAL_SIDE):
            side = f"{ORIGINAL_SIDE}x{ORIGINAL_SIDE}"
            notes.append(f"images are {first.width}x{first.height}; published are {side}")
        yield image_stream(tree, rule, notes=tuple(notes), title=f"{TITLE} ({found} classes)")


def count_of_classes(path: Path, limits: Limits) -> int:
    """Return how many classes of RESISC45 lie at a path."""
    with open_images(path, limits) as tree:
        return len(set(tree.class_names) & set(CLASS_NAMES))
