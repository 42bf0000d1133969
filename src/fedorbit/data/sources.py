"""Sources of datasets: what each is, where its files are, and how to read it.

Pins. EuroSAT: `EuroSAT_RGB.zip` of Zenodo record 7711810, for which Zenodo publishes the MD5
f46e308c4d50d4bf32fedad2d3d62f3b; pinned is the SHA-256 of the same file. RESISC45 is published
without checksum or stable link; pinned is the mirror of the TorchGeo project at a fixed revision,
with the MD5 that TorchGeo checks. EuroSAT MS: `EuroSAT_MS.zip` of the same Zenodo record, with the
MD5 that Zenodo publishes. CIFAR-10 and MNIST: the MD5 sums that their authors (CIFAR-10) and
torchvision (MNIST, whose original server no longer answers) publish. So2Sat LCZ42: version 2 at
mediaTUM, with the MD5 sums that TorchGeo checks; the sizes follow from the published array shapes
and are approximate.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedorbit.data import (
    arrays,
    cifar10,
    eurosat,
    eurosat_ms,
    folder,
    mnist,
    resisc45,
    so2sat,
    synthetic,
)
from fedorbit.data.coordinates import find_beside
from fedorbit.data.limits import Limits
from fedorbit.data.stream import Chunk, ImageStream
from fedorbit.data.synthetic import SyntheticSpec
from fedorbit.errors import DataError, closest


@dataclass(frozen=True)
class RemoteFile:
    """A file to download; `checksum` is `md5:…` or `sha256:…`, `size_bytes` may be approximate."""

    name: str
    url: str
    checksum: str
    size_bytes: int | None


@dataclass(frozen=True)
class SourceInfo:
    """Facts about a dataset before it is downloaded; None where a fact depends on the files."""

    name: str
    title: str
    classes: int | None
    image_shape: tuple[int, int, int] | None
    samples: int | None
    split: str
    licence: str
    homepage: str
    citation: str
    files: tuple[RemoteFile, ...] = ()


@dataclass(frozen=True)
class Source:
    """A dataset and how to read it.

    `open_stream(path, limits=…, **options)` reads it; `options` are all that it takes, with
    defaults.
    `fingerprint(path, geo)` changes when the files that decide the result change; places are read
    from `coordinates_file` beside the path if no other file is given. `downloads` are the names
    under which its (main) file is looked for when no path is given; without any, a path is needed,
    except for a dataset that is `generated`.
    """

    info: SourceInfo
    open_stream: Callable[..., AbstractContextManager[ImageStream]]
    options: dict[str, Any]
    fingerprint: Callable[[Path, Path | None], str]
    downloads: tuple[str, ...] = ()
    generated: bool = False
    coordinates_file: str | None = None

    def coordinates(self, path: Path, geo: Path | None) -> Path | None:
        """Return the file that says where the images were taken, if there is one."""
        if geo is None and self.coordinates_file is not None:
            return find_beside(path, self.coordinates_file)
        return geo


# --- Fingerprints: has a source changed since it was prepared? ----------------------------------


def _fingerprint(paths: list[Path]) -> str:
    """Describe files and folders by name, size and time of change, without reading them."""
    states = []
    for path in paths:
        try:
            # Nothing to walk in a file. A folder's own time shows that files were renamed or
            # removed.
            walk = os.walk(path)
            inside = [
                Path(parent, name).lstat() for parent, _, names in walk for name in (".", *names)
            ]
            found = inside or [path.stat()]
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror}); check the path") from error
        states.append(
            f"{path.resolve().name} (entries {len(found)}, bytes {sum(s.st_size for s in found)}, "
            f"changed_ns {max(s.st_mtime_ns for s in found)})"
        )
    return ", ".join(states)


def _images_and_coordinates(coordinates_file: str) -> Callable[[Path, Path | None], str]:
    """Return the fingerprint of a path together with the coordinate file that goes with it."""

    def fingerprint(path: Path, geo: Path | None) -> str:
        geo = geo or find_beside(path, coordinates_file)
        return _fingerprint([path] if geo is None else [path, geo])

    return fingerprint


def _generator_fingerprint(path: Path, geo: Path | None) -> str:
    """A generated dataset is as old as the code that generates it."""
    return f"generator {hashlib.sha256(Path(synthetic.__file__).read_bytes()).hexdigest()}"


@contextmanager
def _generate(path: None, *, limits: Limits, spec: SyntheticSpec) -> Iterator[ImageStream]:
    yield ImageStream(
        samples=spec.samples,
        image_shape=(spec.size, spec.size, spec.channels),
        dtype=np.dtype(np.uint8),
        class_names=tuple(synthetic.class_names(spec)),
        chunks=(
            Chunk(part.images, part.labels, part.latitude_deg, part.longitude_deg)
            for part in synthetic.generate(spec, 1024)
        ),
        origin={},
    )


# --- The sources --------------------------------------------------------------------------------

SYNTHETIC = "synthetic"
_SEEDED_SPLIT = "80/20, stratified, seeded"
_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_SO2SAT_URL = "https://dataserv.ub.tum.de/index.php/s/m1483140/download?path=%2F&files="

_ALL = (
    Source(
        SourceInfo(
            name="eurosat",
            title="EuroSAT RGB",
            classes=len(eurosat.CLASS_NAMES),
            image_shape=(eurosat.SIDE, eurosat.SIDE, 3),
            samples=eurosat.SAMPLES,
            split=_SEEDED_SPLIT,
            licence="MIT",
            homepage="https://doi.org/10.5281/zenodo.7711810",
            citation="Helber et al., IEEE JSTARS 12(7), 2019",
            files=(
                RemoteFile(
                    "EuroSAT_RGB.zip",
                    "https://zenodo.org/records/7711810/files/EuroSAT_RGB.zip",
                    "sha256:b4f5b234ecb7d7ff9c6cddb046543b4717c53fd6e9815be6c0e80cc614f51b90",
                    94_658_721,
                ),
            ),
        ),
        eurosat.open_stream,
        options={"size": eurosat.SIDE, "geo": None},
        fingerprint=_images_and_coordinates(eurosat.COORDINATES_FILE),
        downloads=("EuroSAT_RGB.zip",),
        coordinates_file=eurosat.COORDINATES_FILE,
    ),
    Source(
        SourceInfo(
            name="eurosat-ms",
            title="EuroSAT, 13 bands",
            classes=len(eurosat.CLASS_NAMES),
            image_shape=(eurosat.SIDE, eurosat.SIDE, eurosat_ms.BANDS),
            samples=eurosat.SAMPLES,
            split=_SEEDED_SPLIT,
            licence="MIT",
            homepage="https://doi.org/10.5281/zenodo.7711810",
            citation="Helber et al., IEEE JSTARS 12(7), 2019",
            files=(
                RemoteFile(
                    "EuroSAT_MS.zip",
                    "https://zenodo.org/records/7711810/files/EuroSAT_MS.zip",
                    "md5:091174add3c8e680a49244acf185b9f0",
                    2_065_402_329,
                ),
            ),
        ),
        eurosat_ms.open_stream,
        options={"size": eurosat.SIDE, "bands": None},
        fingerprint=lambda path, geo: _fingerprint([path]),
        downloads=("EuroSAT_MS.zip", "EuroSATallBands.zip"),
    ),
    Source(
        SourceInfo(
            name="resisc45",
            title=resisc45.TITLE,
            classes=len(resisc45.CLASS_NAMES),
            image_shape=(resisc45.SIDE, resisc45.SIDE, 3),
            samples=resisc45.SAMPLES,
            split=_SEEDED_SPLIT,
            licence="for research; no explicit licence",
            homepage="https://gcheng-nwpu.github.io/#Datasets",
            citation="Cheng, Han and Lu, Proceedings of the IEEE 105(10), 2017",
            files=(
                RemoteFile(
                    "NWPU-RESISC45.zip",
                    "https://hf.co/datasets/torchgeo/resisc45/resolve/"
                    "a826b44d938a883185f11ebe3d512d38b464312f/NWPU-RESISC45.zip",
                    "md5:75206b2e16446591afa88e2628744886",
                    None,
                ),
            ),
        ),
        resisc45.open_stream,
        options={"size": resisc45.SIDE, "classes": None},
        fingerprint=lambda path, geo: _fingerprint([path]),
        downloads=("NWPU-RESISC45.zip", "NWPU-RESISC45.rar"),
    ),
    Source(
        SourceInfo(
            name="so2sat",
            title="So2Sat LCZ42 v2, urban classes",
            classes=len(so2sat.CLASS_NAMES),
            image_shape=so2sat.PATCH_SHAPE,
            samples=None,
            split="official; 352,366 / 24,119 / 24,188 patches before the urban ones are selected",
            licence="CC BY 4.0",
            homepage="https://mediatum.ub.tum.de/1483140",
            citation="Zhu et al., IEEE Geoscience and Remote Sensing Magazine 8(3), 2020",
            files=tuple(
                RemoteFile(name, _SO2SAT_URL + name, f"md5:{md5}", size_bytes)
                for name, md5, size_bytes in (
                    ("training.h5", "702bc6a9368ebff4542d791e53469244", 52_000_000_000),
                    ("validation.h5", "71cfa6795de3e22207229d06d6f8775d", 3_560_000_000),
                    ("testing.h5", "e81426102b488623a723beab52b31a8a", 3_570_000_000),
                )
            ),
        ),
        so2sat.open_stream,
        options={},
        fingerprint=lambda path, geo: _fingerprint(so2sat.find_files(path)),
        downloads=("training.h5",),
    ),
    Source(
        SourceInfo(
            name="cifar10",
            title="CIFAR-10",
            classes=len(cifar10.CLASS_NAMES),
            image_shape=cifar10.SHAPE,
            samples=cifar10.SAMPLES,
            split="official",
            licence="none stated; cite",
            homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
            citation="Krizhevsky, technical report, University of Toronto, 2009",
            files=(
                RemoteFile(
                    "cifar-10-binary.tar.gz",
                    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    "md5:c32a1d4ab5d03f1284b67883e8d87530",
                    170_052_171,
                ),
            ),
        ),
        cifar10.open_stream,
        options={},
        fingerprint=lambda path, geo: _fingerprint([path]),
        downloads=("cifar-10-binary.tar.gz",),
    ),
    Source(
        SourceInfo(
            name="mnist",
            title="MNIST",
            classes=len(mnist.CLASS_NAMES),
            image_shape=mnist.SHAPE,
            samples=mnist.SAMPLES,
            split="official",
            licence="CC BY-SA 3.0",
            homepage="http://yann.lecun.com/exdb/mnist/",
            citation="LeCun et al., Proceedings of the IEEE 86(11), 1998",
            files=tuple(
                RemoteFile(f"{name}.gz", f"{_MNIST_URL}{name}.gz", f"md5:{md5}", None)
                for name, md5 in (
                    ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                    ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"),
                    ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
                    ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"),
                )
            ),
        ),
        mnist.open_stream,
        options={},
        fingerprint=lambda path, geo: _fingerprint([*mnist.find_files(path).values()]),
        downloads=("train-images-idx3-ubyte.gz",),
    ),
    Source(
        SourceInfo(
            name="folder",
            title="Your images in class folders",
            classes=None,
            image_shape=None,
            samples=None,
            split=_SEEDED_SPLIT,
            licence="yours",
            homepage="",
            citation="",
        ),
        folder.open_stream,
        options={"size": None, "geo": None, "bands": None, "sensor": None, "layout": None},
        fingerprint=_images_and_coordinates(folder.COORDINATES_FILE),
        coordinates_file=folder.COORDINATES_FILE,
    ),
    Source(
        SourceInfo(
            name="arrays",
            title="Your images in .npz, .npy or HDF5",
            classes=None,
            image_shape=None,
            samples=None,
            split="that of the arrays, else " + _SEEDED_SPLIT,
            licence="yours",
            homepage="",
            citation="",
        ),
        arrays.open_stream,
        options={"size": None, "bands": None, "sensor": None, "layout": None},
        fingerprint=lambda path, geo: _fingerprint([path]),
    ),
    Source(
        SourceInfo(
            name=SYNTHETIC,
            title="Generated land cover",
            classes=SyntheticSpec().classes,
            image_shape=(SyntheticSpec().size, SyntheticSpec().size, SyntheticSpec().channels),
            samples=SyntheticSpec().samples,
            split=_SEEDED_SPLIT,
            licence="MIT",
            homepage="",
            citation="",
        ),
        _generate,
        options={"spec": SyntheticSpec()},
        fingerprint=_generator_fingerprint,
        generated=True,
    ),
)

SOURCES: dict[str, Source] = {source.info.name: source for source in _ALL}
"""Every dataset that can be prepared, by name."""


def find_source(name: str) -> Source:
    """Return a source by name; the error for an unknown name suggests the nearest."""
    if name in SOURCES:
        return SOURCES[name]
    near = closest(name.lower(), SOURCES)
    hint = f"did you mean {near!r}? " if near else ""
    raise DataError(f"there is no source {name!r}; {hint}known are {', '.join(SOURCES)}")
