"""Pictures of the documentation, small enough to be committed."""

from pathlib import Path

from PIL import Image

COLOURS = 256
"""With 64, lines of different methods can come out in one colour."""


def write_small(source: Path, target: Path) -> None:
    """Write an opaque picture as PNG with a palette instead of true colours."""
    with Image.open(source) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(target, optimize=True)
