"""EuroSAT RGB: 27,000 Sentinel-2 images of 64x64 pixels in ten classes of land cover.

The official `EuroSAT_RGB.zip`, its older edition with the folder `2750`, or either unpacked. Where
each image was taken is not in it; a file `eurosat_geo.csv` beside it, or named, adds that.

Helber et al., "EuroSAT: A Novel Dataset and Deep Learning Benchmark for Land Use and Land Cover
Classification", IEEE JSTARS 12(7), 2019.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedorbit.data.coordinates import find_beside
from fedorbit.data.folder import ImageRule, image_stream, open_images
from fedorbit.data.limits import Limits
from fedorbit.data.stream import ImageStream

CLASS_NAMES = (
    "AnnualCrop",
    "Forest",
    "HerbaceousVegetation",
    "Highway",
    "Industrial",
    "Pasture",
    "PermanentCrop",
    "Residential",
    "River",
    "SeaLake",
)
SAMPLES = 27_000
SIDE = 64
COORDINATES_FILE = "eurosat_geo.csv"


@contextmanager
def open_stream(
    path: Path, *, limits: Limits | None = None, size: int = SIDE, geo: Path | None = None
) -> Iterator[ImageStream]:
    """Read EuroSAT; pixels are exactly as decoded unless `size` asks for another side."""
    rule = ImageRule.originals("EuroSAT RGB", SIDE, size)
    with open_images(path, limits) as tree:
        tree.require_classes(CLASS_NAMES, "EuroSAT")
        geo = geo or find_beside(path, COORDINATES_FILE)
        yield image_stream(tree, rule, geo, notes=tree.count_note(SAMPLES))
