"""EuroSAT with all bands: 27,000 Sentinel-2 images, 64x64 pixels, 13 bands of 16 bits, GeoTIFF.

The official `EuroSAT_MS.zip`, its older edition `EuroSATallBands.zip`, or either unpacked. The
bands are those of level 1C, interpolated to 10 m, with B8A last. Where each image was taken stands
in its tags.

Helber et al., "EuroSAT: A Novel Dataset and Deep Learning Benchmark for Land Use and Land Cover
Classification", IEEE JSTARS 12(7), 2019.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fedorbit.data.bands import EUROSAT, chosen
from fedorbit.data.eurosat import CLASS_NAMES, SAMPLES, SIDE
from fedorbit.data.folder import ImageRule, image_stream, open_images
from fedorbit.data.limits import Limits
from fedorbit.data.stream import ImageStream

BANDS = len(EUROSAT)


@contextmanager
def open_stream(
    path: Path, *, limits: Limits | None = None, size: int = SIDE, bands: str | None = None
) -> Iterator[ImageStream]:
    """Read the chosen bands, values exactly as in the files unless `size` asks for another side."""
    keep, names = chosen(bands, EUROSAT, BANDS, "EuroSAT")
    rule = ImageRule.originals(
        "EuroSAT MS", SIDE, size, channels=BANDS, dtype=np.uint16, keep=keep, bands=names
    )
    with open_images(path, limits) as tree:
        tree.require_classes(CLASS_NAMES, "EuroSAT")
        notes, title = tree.count_note(SAMPLES), f"EuroSAT, {len(names)} bands"
        yield image_stream(tree, rule, notes=notes, title=title)
