"""Small GeoTIFFs as real files."""

import io

import numpy as np
import tifffile


def geo_tags(epsg, x, y, pixel, *, raster_type=1, geographic=False):
    """Return tags that put the first pixel's corner at x, y, in an EPSG coordinate system."""
    keys = (1, 1, 0, 3, 1024, 0, 1, 2 if geographic else 1, 1025, 0, 1, raster_type)
    keys += (2048 if geographic else 3072, 0, 1, epsg)
    return [
        (33550, "d", 3, (pixel, pixel, 0.0), True),
        (33922, "d", 6, (0.0, 0.0, 0.0, x, y, 0.0), True),
        (34735, "H", len(keys), keys, True),
    ]


def tiff_bytes(values, tags=(), **options):
    """Return a TIFF file of an array `[height, width, bands]`, or `[bands, height, width]`."""
    buffer = io.BytesIO()
    options = {"photometric": "minisblack", "planarconfig": "contig", "metadata": None} | options
    tifffile.imwrite(buffer, values, extratags=list(tags), **options)
    return buffer.getvalue()


def scene(seed, bands=13, side=8, dtype=np.uint16):
    values = np.random.default_rng(seed).integers(0, 250, (side, side, bands))
    return (values * (40 if dtype == np.uint16 else 1)).astype(dtype)
