"""Deterministic, land-cover-like satellite chips for demos, tests and benchmarks.

A chip is drawn in five steps, each a function below: a *texture* says which fraction of every
pixel is ground, feature (trees, water, tarmac ...) and accent; a spectral *signature* gives these
three materials a reflectance, shifted per sample and, smoothly, with geography (*drift*);
*illumination* and *sensor noise* turn the reflectance into 8-bit counts.

Samples are drawn in blocks whose size follows from the spec alone, each from its own keyed
generator, so the bytes depend neither on the chunk size nor on what was drawn before.
(Between CPUs with different vector units, NumPy's rounding may change a pixel by one count.)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedorbit.errors import ConfigError
from fedorbit.randomness import generator

Floats = NDArray[np.floating[Any]]  # float32 wherever there are pixels
Degrees = NDArray[np.float64]
Layers = tuple[Floats, Floats]  # fractions of feature and accent, [n, size, size] each


@dataclass(frozen=True)
class SyntheticSpec:
    """Settings of a dataset: ``samples`` square chips, divided evenly among ``classes``."""

    classes: int = 10
    samples: int = 6000
    size: int = 32  # pixels along each side
    channels: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        for name, low, high in (("classes", 1, 1000), ("channels", 1, 32), ("size", 8, 256)):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be in {low}..{high}.")
        if self.samples < 0:
            raise ConfigError(f"samples is {self.samples}; it must not be negative.")


@dataclass(frozen=True)
class SyntheticChunk:
    """A run of consecutive samples; images are ``[n, size, size, channels]``."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    latitude_deg: Degrees
    longitude_deg: Degrees


# --- What the classes are -----------------------------------------------------------------------

# Reflectances at these wavelengths, rounded from typical field spectra.
_KNOTS_UM = (0.45, 0.49, 0.56, 0.665, 0.74, 0.84, 1.1, 1.6, 2.2)
_MATERIALS: dict[str, tuple[float, ...]] = {
    "conifer": (0.030, 0.035, 0.055, 0.035, 0.17, 0.28, 0.28, 0.13, 0.06),
    "tree": (0.035, 0.040, 0.075, 0.045, 0.24, 0.38, 0.38, 0.19, 0.09),
    "grass": (0.050, 0.058, 0.105, 0.075, 0.28, 0.42, 0.42, 0.26, 0.14),
    "crop": (0.050, 0.060, 0.110, 0.090, 0.27, 0.40, 0.41, 0.27, 0.16),
    "straw": (0.080, 0.095, 0.140, 0.165, 0.24, 0.30, 0.36, 0.39, 0.28),
    "soil": (0.075, 0.090, 0.125, 0.165, 0.20, 0.24, 0.30, 0.37, 0.33),
    "water": (0.060, 0.058, 0.055, 0.035, 0.02, 0.015, 0.01, 0.008, 0.006),
    "tarmac": (0.120, 0.125, 0.130, 0.135, 0.14, 0.14, 0.15, 0.17, 0.17),
    "concrete": (0.180, 0.200, 0.225, 0.240, 0.25, 0.26, 0.29, 0.32, 0.31),
    "metal": (0.300, 0.310, 0.320, 0.330, 0.34, 0.35, 0.37, 0.38, 0.36),
    "tile": (0.105, 0.115, 0.155, 0.255, 0.27, 0.26, 0.29, 0.33, 0.31),
    "sand": (0.160, 0.190, 0.260, 0.330, 0.36, 0.39, 0.45, 0.50, 0.47),
    "snow": (0.560, 0.560, 0.560, 0.540, 0.52, 0.49, 0.35, 0.08, 0.05),
    "panel": (0.050, 0.048, 0.045, 0.045, 0.05, 0.06, 0.10, 0.12, 0.12),
}
_SEASONAL = {"conifer", "tree", "grass", "crop", "straw", "soil"}  # green up and dry out


class _Cover(NamedTuple):
    """One land cover: texture family, its parameters, and the three materials it mixes."""

    name: str
    family: str
    materials: tuple[str, str, str]  # ground, feature, accent
    period_px: float  # spacing or extent of the pattern
    width_px: float  # width of lines and edges; for rows and lattices, how crooked they are
    amount: float  # amount of the feature, 0..1; its meaning depends on the family
    roughness: float  # relative amplitude of the fine brightness grain


_COVERS: tuple[_Cover, ...] = (
    _Cover("Annual crop", "parcels", ("crop", "soil", "grass"), 15.0, 1.0, 0.45, 0.06),
    _Cover("Forest", "patches", ("conifer", "tree", "grass"), 5.0, 1.0, 0.45, 0.16),
    _Cover("Grassland", "patches", ("grass", "straw", "tree"), 9.0, 1.0, 0.45, 0.07),
    _Cover("Highway", "line", ("grass", "tarmac", "soil"), 90.0, 3.2, 0.40, 0.07),
    _Cover("Industrial", "blocks", ("tarmac", "concrete", "metal"), 13.0, 3.0, 0.40, 0.06),
    _Cover("Pasture", "parcels", ("grass", "straw", "tree"), 16.0, 1.6, 0.20, 0.07),
    _Cover("Orchard", "lattice", ("soil", "tree", "grass"), 4.5, 0.3, 0.45, 0.09),
    _Cover("Residential", "streets", ("grass", "tarmac", "tile"), 12.0, 2.0, 0.70, 0.08),
    _Cover("River", "line", ("grass", "water", "soil"), 40.0, 4.0, 0.10, 0.07),
    _Cover("Lake", "shore", ("grass", "water", "soil"), 26.0, 0.8, 0.60, 0.06),
    _Cover("Vineyard", "rows", ("soil", "crop", "grass"), 3.6, 0.5, 0.55, 0.06),
    _Cover("Wetland", "patches", ("grass", "water", "straw"), 8.0, 1.0, 0.45, 0.10),
    _Cover("Bare rock", "patches", ("concrete", "tarmac", "straw"), 6.0, 1.0, 0.40, 0.16),
    _Cover("Sand desert", "rows", ("sand", "soil", "straw"), 9.0, 1.4, 0.35, 0.05),
    _Cover("Snowfield", "patches", ("snow", "concrete", "conifer"), 14.0, 1.0, 0.25, 0.06),
    _Cover("Airport", "line", ("grass", "concrete", "tarmac"), 400.0, 5.0, 0.80, 0.05),
    _Cover("Coast", "shore", ("sand", "water", "snow"), 60.0, 2.5, 0.50, 0.06),
    _Cover("Solar farm", "rows", ("grass", "panel", "tarmac"), 5.0, 0.2, 0.60, 0.04),
    _Cover("Greenhouses", "blocks", ("soil", "metal", "snow"), 8.0, 1.2, 0.30, 0.04),
    _Cover("Quarry", "shore", ("soil", "sand", "concrete"), 18.0, 2.5, 0.50, 0.14),
    _Cover("City centre", "streets", ("concrete", "tarmac", "tile"), 8.0, 1.6, 0.85, 0.10),
    _Cover("Savanna", "lattice", ("straw", "tree", "soil"), 8.0, 2.5, 0.30, 0.10),
)

# Where chips are taken: latitude, longitude and spread in degrees, and the expected share of the
# samples. Mostly Europe, as in EuroSAT.
_REGIONS = np.array([
    (38.5, -5.0, 1.5, 0.1), (41.5, 13.5, 1.5, 0.1), (46.5, 2.5, 1.5, 0.1), (48.5, 11.0, 1.5, 0.1),
    (52.5, -1.5, 1.2, 0.1), (52.0, 19.0, 1.5, 0.1), (45.5, 25.5, 1.2, 0.1), (57.5, 14.0, 1.2, 0.1),
    (40.0, -95.0, 3.0, 0.05), (-20.0, -50.0, 3.0, 0.05), (25.0, 80.0, 3.0, 0.05),
    (-30.0, 145.0, 2.0, 0.05),
])  # fmt: skip


class _Class(NamedTuple):
    """Parameters of one class or, stacked along a first axis, of many."""

    family: Any  # name of the texture family
    pattern: Floats  # [4] period_px, width_px, amount, roughness
    log_mean: Floats  # [3 materials, channels] mean log reflectance
    loadings: Floats  # [axes, 3 materials, channels]; loadings.T @ loadings is the covariance
    drift: Floats  # [axes] sensitivity to geography
    region: Floats  # [regions] cumulative probability


def _cover(seed: int, index: int) -> _Cover:
    """Return the land cover of class ``index``: listed, or beyond the list a random variation."""
    if index < len(_COVERS):
        return _COVERS[index]
    rng = generator(seed, "synthetic-cover", index)
    base = _COVERS[int(rng.integers(len(_COVERS)))]
    ground, feature, accent = rng.choice(list(_MATERIALS), 3, replace=False).tolist()
    return base._replace(
        name=f"Cover {index + 1}",
        materials=(ground, feature, accent),
        period_px=base.period_px * float(rng.uniform(0.6, 1.6)),
        width_px=base.width_px * float(rng.uniform(0.7, 1.5)),
        amount=float(rng.uniform(0.25, 0.75)),
    )


def class_names(spec: SyntheticSpec) -> list[str]:
    """Return the name of every class, in label order."""
    return [_cover(spec.seed, index).name for index in range(spec.classes)]


def _wavelengths_um(channels: int) -> Floats:
    """Return channel centres: red, green, blue, then evenly from the red edge to the SWIR."""
    beyond = np.linspace(0.74, 2.2, max(channels - 3, 0))
    return np.concatenate([[0.665, 0.56, 0.49], beyond])[:channels]


def _signature(rng: Generator, cover: _Cover, channels: int) -> tuple[Floats, Floats]:
    """Return the mean log reflectance of a cover's materials and the loadings of its spread.

    The axes of the spread are brightness, greenness and one tint around each spectral knot.
    """
    at_um = _wavelengths_um(channels)
    used = {*cover.materials, "grass", "straw"}
    log_of = {name: np.log(np.interp(at_um, _KNOTS_UM, _MATERIALS[name])) for name in used}
    tints = np.stack([np.interp(at_um, _KNOTS_UM, unit) for unit in np.eye(len(_KNOTS_UM))])
    mean = np.stack([log_of[name] for name in cover.materials])
    mean += 0.05 * rng.normal(size=len(tints)) @ tints
    axes = np.stack([np.ones(channels), log_of["grass"] - log_of["straw"], *tints])
    loadings = np.repeat(axes[:, None], 3, axis=1)
    loadings[1] *= np.array([[name in _SEASONAL] for name in cover.materials])
    spread = np.array([0.16, 0.16] + [0.07] * len(tints)) * rng.uniform(0.85, 1.15, len(axes))
    return mean, spread[:, None, None] * loadings


def _draw_class(spec: SyntheticSpec, index: int) -> _Class:
    """Draw the parameters of a class, from the seed and its index alone."""
    rng = generator(spec.seed, "synthetic-class", index)
    cover = _cover(spec.seed, index)
    log_mean, loadings = _signature(rng, cover, spec.channels)
    pattern = np.array([cover.period_px, cover.width_px, cover.amount, cover.roughness])
    pattern[:2] *= np.exp(0.06 * rng.normal(size=2))
    drift = rng.uniform(0.6, 1.4, len(loadings))
    region = np.cumsum(rng.dirichlet(12 * _REGIONS[:, 3]))
    return _Class(cover.family, pattern, log_mean, loadings, drift, region)


# --- Textures: which fraction of a pixel is feature and accent ----------------------------------


class _Pattern(NamedTuple):
    """Texture parameters of n samples of one family, [n, 1, 1] each; see `_Cover`."""

    period_px: Floats
    width_px: Floats
    amount: Floats


def _uniform(rng: Generator, low: float, high: float, n: int) -> Floats:
    """Return one number per sample, [n, 1, 1]."""
    return rng.uniform(low, high, (n, 1, 1)).astype(np.float32)


def _noise(rng: Generator, wavelength_px: Floats, size: int) -> Floats:
    """Return band-limited noise [n, size, size] of unit variance around a wavelength [n, 1, 1]."""
    white = rng.standard_normal((len(wavelength_px), size, size), np.float32)
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)).astype(np.float32)
    relative = frequency * wavelength_px
    field = np.fft.irfft2(np.fft.rfft2(white) * (relative / (1 + relative**4)), s=(size, size))
    field /= np.sqrt(np.mean(field**2, axis=(1, 2), keepdims=True))
    return field


def _frame(rng: Generator, n: int, size: int) -> tuple[Floats, Floats]:
    """Return pixel coordinates [n, size, size] along and across a random direction."""
    angle = _uniform(rng, 0, np.pi, n)
    y, x = (np.mgrid[:size, :size] - (size - 1) / 2).astype(np.float32)
    return np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x


def _cells(
    rng: Generator, u: Floats, v: Floats, width_px: Floats, shift: float
) -> tuple[Floats, Floats]:
    """Cut the plane into strips of cells, half as long again as wide.

    ``shift`` moves the strips against each other: 0 gives through lines (streets), 1 parcels.
    Returns a random tone in 0..1 per cell and the distance to the cell's edge in pixels.
    """
    n, cycle = len(u), 16  # cells per direction before tones repeat
    length_px = 1.5 * width_px
    u = u / width_px + rng.random((n, 1, 1), np.float32)
    strip = np.floor(u).astype(np.int64)
    offset = shift * rng.random((n, cycle), np.float32)
    v = v / length_px + np.take_along_axis(offset, strip.reshape(n, -1) % cycle, 1).reshape(v.shape)
    row = np.floor(v).astype(np.int64)
    key = (strip % cycle * cycle + row % cycle).reshape(n, -1)
    tone = np.take_along_axis(rng.random((n, cycle**2), np.float32), key, 1).reshape(v.shape)
    u, v = u - strip.astype(np.float32), v - row.astype(np.float32)
    return tone, np.minimum(np.minimum(u, 1 - u) * width_px, np.minimum(v, 1 - v) * length_px)


def _inside(distance_px: Floats) -> Floats:
    """Return the soft coverage of pixels by a shape, given the distance to it (inside < 0)."""
    return np.asarray(np.clip(0.5 - 0.7 * distance_px, 0, 1))


def _wave(x_px: Floats, period_px: Floats) -> Floats:
    """Return a cosine between 0 and 1."""
    return np.asarray(0.5 + 0.5 * np.cos(2 * np.pi * x_px / period_px))


def _patches(rng: Generator, p: _Pattern, size: int) -> Layers:
    """Natural mottle: patches of the feature, sparse clumps of the accent."""
    feature = 1 / (1 + np.exp(-2.5 * (_noise(rng, p.period_px, size) + 2 * p.amount - 1)))
    return feature, _inside(4 * (1.6 - _noise(rng, p.period_px / 2, size)))


def _parcels(rng: Generator, p: _Pattern, size: int) -> Layers:
    """Fields, each more or less bare and furrowed (the feature), most with hedges between."""
    u, v = _frame(rng, len(p.amount), size)
    tone, edge_px = _cells(rng, u, v, p.period_px, 1)
    bare = np.clip(0.5 + 1.6 * (tone + p.amount - 1), 0, 1)
    hedged = _uniform(rng, 0, 1, len(p.amount)) < 0.85
    feature = bare * (0.4 + 0.6 * _wave(u, p.period_px / 4))
    return feature, hedged * _inside(edge_px - p.width_px / 2)


def _plantation(rng: Generator, p: _Pattern, size: int) -> tuple[Floats, Floats, Floats]:
    """Return coordinates across and along crooked rows, and sparse clearings in between."""
    u, v = _frame(rng, len(p.amount), size)
    bend_px = p.width_px * _noise(rng, 4 * p.period_px, size)
    clearings = _inside(3 * (1.5 - _noise(rng, 2 * p.period_px, size)))
    return u + bend_px, v - bend_px, clearings


def _rows(rng: Generator, p: _Pattern, size: int) -> Layers:
    """Parallel rows of the feature, broad by the amount, with clearings."""
    u, _, clearings = _plantation(rng, p, size)
    rows = np.clip(_wave(u, p.period_px) + p.amount - 0.5, 0, 1)
    return rows * (1 - clearings), clearings / 2


def _lattice(rng: Generator, p: _Pattern, size: int) -> Layers:
    """Tree crowns in a lattice, large by the amount and closer in the row, with clearings."""
    u, v, clearings = _plantation(rng, p, size)
    crowns = 1.6 * _wave(u, p.period_px) * _wave(v, 0.8 * p.period_px)
    return np.clip(crowns + p.amount - 0.5, 0, 1) * (1 - clearings), clearings


def _streets(rng: Generator, p: _Pattern, size: int) -> Layers:
    """A street grid with small houses (the accent) on an amount of the plots."""
    u, v = _frame(rng, len(p.amount), size)
    _, edge_px = _cells(rng, u, v, p.period_px, 0)
    street = _inside(edge_px - p.width_px / 2)
    plot, house_px = _cells(rng, u, v, p.period_px / 3, 1)
    return street, (plot < p.amount) * _inside(0.5 - house_px) * (1 - street)


def _blocks(rng: Generator, p: _Pattern, size: int) -> Layers:
    """Large buildings, an amount of them bright (the accent), with yards between."""
    u, v = _frame(rng, len(p.amount), size)
    tone, edge_px = _cells(rng, u, v, p.period_px, 1)
    # The tone decides about brightness; its second digit serves as another draw, for the size.
    building = _inside(p.width_px * (0.3 + 10 * tone % 1) - edge_px)
    bright = tone > 1 - p.amount
    return building * ~bright, building * bright


def _line(rng: Generator, p: _Pattern, size: int) -> Layers:
    """A winding band (the period is a meander) between parcels; an amount have a branch."""
    n = len(p.amount)
    u, v = _frame(rng, n, size)
    offset_px = _uniform(rng, -0.25, 0.25, n) * size
    swing_px = np.minimum(0.24 * p.period_px, 200 / p.period_px)  # roads: long and nearly straight
    bend = _wave(u + _uniform(rng, 0, 1, n) * p.period_px, p.period_px) - 0.5
    band = _inside(np.abs(v - offset_px - swing_px * bend) - p.width_px / 2)
    turn, branched = _uniform(rng, 0.5, 1, n), _uniform(rng, 0, 1, n) < p.amount
    branch = _inside(np.abs(u - offset_px + turn * v) - p.width_px / 3) * branched
    tone, _ = _cells(rng, u, v, 14 * turn, 1)
    feature = np.maximum(band, branch)
    return feature, (1 - feature) * np.clip(2 * tone - 1, 0, 1)


def _shore(rng: Generator, p: _Pattern, size: int) -> Layers:
    """A body of the feature with an irregular outline and a fringe of accent."""
    n = len(p.amount)
    u, v = _frame(rng, n, size)
    outside_px = np.hypot(u - _uniform(rng, -0.5, 0.5, n) * size, v)
    outside_px += p.period_px * (0.08 * _noise(rng, p.period_px, size) - 0.3 - 0.6 * p.amount)
    body = _inside(outside_px)
    return body, (1 - body) * _inside(outside_px - p.width_px)


_FAMILIES: dict[str, Callable[[Generator, _Pattern, int], Layers]] = {
    "patches": _patches, "parcels": _parcels, "rows": _rows, "lattice": _lattice,
    "streets": _streets, "blocks": _blocks, "line": _line, "shore": _shore,
}  # fmt: skip


def _texture(rng: Generator, of: _Class, size: int) -> Floats:
    """Return the fractions of ground, feature and accent, [n, size, size, 3]."""
    jitter = np.exp(rng.normal(size=(len(of.family), 3)) * (0.20, 0.25, 0.15))
    pattern = (of.pattern[:, :3] * jitter).astype(np.float32)
    fractions = np.empty((len(of.family), size, size, 3), np.float32)
    for name, draw in _FAMILIES.items():
        (members,) = np.nonzero(of.family == name)
        if len(members):
            feature, accent = draw(rng, _Pattern(*pattern[members].T[..., None, None]), size)
            # Accents lie on top: hedges and houses hide what is below them.
            layers = (1 - feature) * (1 - accent), feature * (1 - accent), accent
            fractions[members] = np.stack(layers, -1)
    return fractions


# --- From fractions to counts -------------------------------------------------------------------


def _locate(rng: Generator, of: _Class) -> tuple[Degrees, Degrees]:
    """Draw a latitude and a longitude in degrees, near one of the regions of each class."""
    n = len(of.region)
    # The last cumulative probability may round to just below 1, hence not counting it.
    region = (rng.random((n, 1)) > of.region[:, :-1]).sum(1)
    latitude_deg, longitude_deg, spread_deg, _ = _REGIONS[region].T
    north, east = np.clip(rng.normal(size=(2, n)), -2, 2)
    return latitude_deg + spread_deg * north, longitude_deg + spread_deg * east


def _drift(seed: int, latitude_deg: Degrees, longitude_deg: Degrees, axes: int) -> Floats:
    """Return a smooth geographic field [n, axes] in -1..1, the same for all classes."""
    rng = generator(seed, "synthetic-drift")
    latitude, longitude = np.radians(latitude_deg), np.radians(longitude_deg)
    # A function of the place on the globe, not on the map, so the date line is no seam.
    equatorial = np.cos(latitude) * np.array([np.cos(longitude), np.sin(longitude)])
    direction = rng.normal(size=(3, axes))
    direction *= 6.0 / np.linalg.norm(direction, axis=0)  # a half turn in about 30 degrees
    phase = rng.uniform(0, 2 * np.pi, axes)
    return np.sin(np.stack([*equatorial, np.sin(latitude)], -1) @ direction + phase)


def _reflectance(rng: Generator, of: _Class, drift: Floats, fractions: Floats) -> Floats:
    """Mix the materials of each sample, shifted by its own draw and by geography; add grain."""
    n, size = fractions.shape[:2]
    along = rng.normal(size=drift.shape) + 1.2 * of.drift * drift
    shift = np.einsum("na,namc->nmc", along, of.loadings)
    # Wet soil, dry grass, ripe fields: in some chips the materials differ less than in others.
    contrast = _uniform(rng, 0.35, 1.1, n)
    centre = of.log_mean.mean(1, keepdims=True)
    materials = np.exp(centre + contrast * (of.log_mean - centre) + shift)
    mixed = fractions.reshape(n, size * size, 3) @ materials.astype(np.float32)
    roughness = (of.pattern[:, 3] * np.exp(0.3 * rng.normal(size=n))).astype(np.float32)
    grain = roughness[:, None, None] * _noise(rng, np.full((n, 1, 1), 3, np.float32), size)
    return np.asarray(mixed.reshape(n, size, size, -1) * np.exp(grain)[..., None])


def _illuminate(rng: Generator, reflectance: Floats) -> Floats:
    """Apply gain, a slope towards the sun, vignetting and haze (strongest in the blue)."""
    n, size, _, channels = reflectance.shape
    u, v = _frame(rng, n, size)
    gain, slope, vignette, haze = rng.standard_normal((4, n, 1, 1), np.float32)
    light = np.exp(0.10 * gain) * (1 + 0.12 * slope * u / size)
    light *= 1 - 0.20 * np.abs(vignette) * (u**2 + v**2) / size**2
    scatter = (0.012 * (0.49 / _wavelengths_um(channels)) ** 2).astype(np.float32)
    return np.asarray(reflectance * light[..., None] + np.abs(haze)[..., None] * scatter)


def _sense(rng: Generator, radiance: Floats) -> NDArray[np.uint8]:
    """Add sensor noise and quantise with a square-root stretch, which keeps dark covers apart."""
    noisy = radiance + 0.006 * rng.standard_normal(radiance.shape, np.float32)
    counts = 350 * np.sqrt(np.maximum(noisy, 0))
    return np.asarray(np.minimum(counts, 255).astype(np.uint8))


def _draw_block(
    spec: SyntheticSpec, classes: _Class, block: int, labels: NDArray[np.int64]
) -> SyntheticChunk:
    """Draw one block of samples with the generator that belongs to it."""
    rng = generator(spec.seed, "synthetic-block", block)
    of = _Class(*(column[labels] for column in classes))
    latitude_deg, longitude_deg = _locate(rng, of)
    drift = _drift(spec.seed, latitude_deg, longitude_deg, of.drift.shape[1])
    fractions = _texture(rng, of, spec.size)
    radiance = _illuminate(rng, _reflectance(rng, of, drift, fractions))
    return SyntheticChunk(_sense(rng, radiance), labels, latitude_deg, longitude_deg)


def _slice(samples: SyntheticChunk, run: slice) -> SyntheticChunk:
    """Return a run of samples, as views."""
    return SyntheticChunk(*(column[run] for column in vars(samples).values()))


def _join(parts: list[SyntheticChunk]) -> SyntheticChunk:
    """Return the parts as one contiguous chunk."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return SyntheticChunk(*(np.concatenate(column) for column in columns))


def generate(spec: SyntheticSpec, chunk: int = 1024) -> Iterator[SyntheticChunk]:
    """Yield all samples, shuffled over classes, ``chunk`` at a time (the last may be fewer)."""
    if chunk < 1:
        raise ConfigError(f"chunk is {chunk}; it must be at least 1.")
    drawn_classes = (_draw_class(spec, index) for index in range(spec.classes))
    classes = _Class(*(np.array(column) for column in zip(*drawn_classes, strict=True)))
    labels = generator(spec.seed, "synthetic-order").permutation(spec.samples) % spec.classes
    # Large chips come in small blocks, so that the memory for intermediate results is bounded.
    block_samples = min(256, 2**18 // spec.size**2)
    parts: list[SyntheticChunk] = []
    missing = chunk
    for block, start in enumerate(range(0, spec.samples, block_samples)):
        drawn = _draw_block(spec, classes, block, labels[start : start + block_samples])
        while len(drawn.labels) >= missing:
            yield _join([*parts, _slice(drawn, slice(missing))])
            drawn = _slice(drawn, slice(missing, None))
            parts, missing = [], chunk
        parts.append(drawn)
        missing -= len(drawn.labels)
    if missing < chunk:
        yield _join(parts)
