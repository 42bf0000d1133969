"""NWPU-RESISC45: 31,500 aerial images of 256x256 pixels in 45 classes of scenes.

The official `.rar` (its members are compressed, so an unpacking program is needed), the mirrored
`.zip`, or either unpacked. Images are shrunk to 32x32 pixels, antialiased.

Cheng, Han and Lu, "Remote Sensing Image Scene Classification: Benchmark and State of the Art",
Proceedings of the IEEE 105(10), 2017.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedorbit.data.folder import ImageRule, Places, image_stream, open_images
from fedorbit.data.limits import Limits
from fedorbit.data.stream import ImageStream

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
SAMPLES = 31_500
ORIGINAL_SIDE = 256
SIDE = 32


@contextmanager
def open_stream(
    path: Path, *, limits: Limits | None = None, size: int = SIDE
) -> Iterator[ImageStream]:
    """Read NWPU-RESISC45, every image resized to a square of `size` pixels."""
    rule = ImageRule.originals("RESISC45", ORIGINAL_SIDE, size)
    with open_images(path, limits) as tree:
        tree.require_classes(CLASS_NAMES, "RESISC45")
        yield image_stream(tree, rule, Places(), notes=tree.count_note(SAMPLES))
