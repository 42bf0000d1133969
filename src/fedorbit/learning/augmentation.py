"""Images seen in other orientations and places while they are trained on.

Land cover seen from above has no up: each of the eight orientations of a square is as good an
image. So is one that begins a few pixels further on. Every time an image is trained on, it gets a
*view*: an orientation, and a shift in rows and columns. Pixels beyond the edge of the image repeat
the edge.

A view is three numbers (`VIEW`). Orientation: bit 2 transposes the moved image, then bit 1 reverses
its rows and bit 0 its columns. An image that is not square has the four orientations without bit 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Views = NDArray[np.int8]
VIEW = 3


@dataclass(frozen=True)
class Augmentation:
    """Set of views to draw from: orientations and shifts."""

    orientations: bool = False
    """True: all orientations, eight of a square image and four of another."""
    shift: int = 0
    """Largest shift in pixels, each way; 0: none."""

    def views(
        self, rng: np.random.Generator, order: tuple[int, int], image: tuple[int, ...]
    ) -> Views | None:
        """Draw views `[epochs, samples, VIEW]` of images of a shape; None: as they are."""
        if not self.orientations and not self.shift:
            return None
        views = np.zeros((*order, VIEW), dtype=np.int8)
        if self.orientations:
            views[..., 0] = rng.integers(0, 8 if image[0] == image[1] else 4, order, dtype=np.int8)
        if self.shift:
            size = (*order, 2)
            views[..., 1:] = rng.integers(-self.shift, self.shift, size, np.int8, endpoint=True)
        return views


AS_THEY_ARE = Augmentation()


def seen_as(images: Tensor, views: Views) -> Tensor:
    """Return images `[n, height, width, channels]` as their views `[n, VIEW]` show them."""
    import torch

    _, height, width, _ = images.shape
    numbers = torch.from_numpy(views.astype(np.int64)).to(images.device)
    turn, rows_on, columns_on = (each[:, None] for each in numbers.unbind(1))
    y = torch.arange(height, device=images.device)[None]
    x = torch.arange(width, device=images.device)[None]
    y, x = torch.where(turn & 2 > 0, height - 1 - y, y), torch.where(turn & 1 > 0, width - 1 - x, x)
    across, down = y[:, :, None].expand(-1, -1, width), x[:, None].expand(-1, height, -1)
    transposed = (turn & 4 > 0)[..., None]
    rows = torch.where(transposed, down, across) + rows_on[..., None]
    columns = torch.where(transposed, across, down) + columns_on[..., None]
    number = torch.arange(len(images), device=images.device)[:, None, None]
    return images[number, rows.clamp(0, height - 1), columns.clamp(0, width - 1)]
