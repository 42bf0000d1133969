"""Whole, tiny inputs of the command line, made once: what is to be damaged.

Every piece lies in a folder of its own, is made by the command line itself where it can, and only
when a target asks for it. Clocks stand still meanwhile, so that the same code makes the same files.
"""

import io
import json
import os
import signal
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tifffile
from forkserver import Entry, Outcome, call, environment_in
from mutations import copy_tree
from PIL import Image
from promises import headline
from sgp4.api import WGS72, Satrec
from sgp4.exporter import export_omm, export_tle

PLAIN = """extends = "quickstart"
seed = 3

[constellation]
planes = 3
satellites_per_plane = 2

[schedule]
rounds = 20

[data.synthetic]
classes = 4
samples = 60
size = 16

[training]
epochs = 1

[run]
method = ["fedorbit", "ditto"]
rounds = 6
links = "ideal"

[network]
isl = "assumed"

[engine]
checkpoint_every = 2
workers = 1
"""
LIMITS = """
[[stations]]
name = "Kiruna"
latitude_deg = 67.9
longitude_deg = 21.1

[[events]]
round = 1
kind = "leave"
satellite = 0

[[events]]
round = 3
kind = "leave"
orbit = 1

[onboard]
samples_per_s = 10.0
speed_spread = 0.5
deadline = true

[onboard.energy]
battery_wh = 0.02
solar_w = 0.03
training_w = 10.0

[link_rates]
to_ground_mbps = 0.05
from_ground_mbps = 0.05
isl_mbps = 1.0
"""


def study_text(title: str, *, horizon: int, samples: int, rounds: int, every: int) -> str:
    """Return a tiny study with two seeds, to which grids are added."""
    return f"""title = "{title}"
base = "quickstart"

[settings]
constellation.planes = 3
constellation.satellites_per_plane = 2
schedule.rounds = {horizon}
data.synthetic = {{ classes = 4, samples = {samples}, size = 16 }}
training.epochs = 1
run.rounds = {rounds}
run.links = "ideal"
network.isl = "assumed"
engine.checkpoint_every = {every}

[common]
seed = [0, 1]
"""


STUDY = (
    study_text("a small study", horizon=20, samples=60, rounds=4, every=3)
    + """
[[grid]]
method = ["local", "fedavg"]

[[grid]]
method = ["fedprox"]
partition.scheme = ["ground-track"]
partition.swath_half_width_km = [0.001]

[published.synthetic.dirichlet]
fedavg = [50.0, 10.0]
"""
)
"""The last grid's runs fail: no satellite sees an image from so narrow a swath."""
CACHED = "mine"
EXIT_FAILED_RUNS = 3
# The processes of a study are no forks of ours: this stops their clock, too.
STILL = "import time\ntime.monotonic = lambda: 0.0\n"


class Material:
    """Folders with whole inputs, below one root; each is made when first asked for."""

    def __init__(self, root: Path, entry: Entry) -> None:
        self.root = root
        self._entry = entry
        self._makers: dict[str, Callable[[Path], None]] = {
            "configs": _write_configs,
            "elements": _write_elements,
            "images": _write_images,
            "bands": _write_bands,
            "cache": self._prepare_cache,
            "runs": self._make_runs,
            "study": self._make_study,
        }

    def folder(self, name: str) -> Path:
        """Return the folder of one piece, whole."""
        folder = self.root / name
        if not folder.exists():
            folder.mkdir(parents=True)
            self._makers[name](folder)
        return folder

    def run_baseline(self, run: str) -> dict[str, dict[str, object]]:
        """Return what the commands `report` and `resume` say of an undamaged run."""
        found: dict[str, dict[str, object]]
        found = json.loads((self.folder("runs") / f"{run}.json").read_text())
        return found

    def study_baseline(self) -> dict[str, object]:
        """Return the numbers of an undamaged study's table."""
        found: dict[str, object] = json.loads((self.folder("study") / "table.json").read_text())
        return found

    def _prepare_cache(self, folder: Path) -> None:
        images = self.folder("images") / "folder"
        self._call(folder, "data", "prepare", "folder", "--source", str(images), "--name", CACHED)
        (folder / "cache").rename(folder / "prepared")

    def _make_runs(self, folder: Path) -> None:
        """Finished runs, and runs that were killed and stopped on their way."""
        configs = self.folder("configs")
        for name in ("plain", "limits", "elements"):
            file = configs / f"{name}.toml"
            copied = copy_tree(configs, folder / f"{name}-configs") / file.name
            self._call(folder, "run", str(copied), "--out", name, "-q", before=_stop_clocks)
            self._note_baseline(folder, name, name)
        for name, signal_number in (("killed", signal.SIGKILL), ("stopped", signal.SIGTERM)):
            watch = _EndOnTheWay(folder / name / "ditto" / "records.jsonl", 3, signal_number)
            argv = ("run", str(configs / "plain.toml"), "--out", name, "-q")
            codes = (-signal_number, 128 + signal_number)
            self._call(folder, *argv, before=watch, codes=codes)
            self._note_baseline(folder, name, "plain")

    def _make_study(self, folder: Path) -> None:
        (folder / "still").mkdir()
        (folder / "still" / "sitecustomize.py").write_text(STILL)
        (folder / "tiny.toml").write_text(STUDY)
        argv = ("study", "run", "tiny.toml", "--out", "study", "--jobs", "2")
        self._call(folder, *argv, codes=(EXIT_FAILED_RUNS,), still=True)
        copy = copy_tree(folder / "study", folder / "copy")
        said = self._call(folder, "study", "table", copy.name, "--json")
        numbers = headline("table", json.loads(said.stdout))
        (folder / "table.json").write_text(json.dumps(numbers))

    def _note_baseline(self, folder: Path, run: str, like: str) -> None:
        """Write down what is said of a run; of one that is not finished, once it is."""
        report = "report" if run == like else ""
        said: dict[str, object] = {}
        copy = copy_tree(folder / like, folder / f"{run}-copy")
        for command in filter(None, (report, "resume")):
            argv = ["report", copy.name] if command == "report" else ["run", "--resume", copy.name]
            outcome = self._call(folder, *argv, "--json")
            said[command] = headline(command, json.loads(outcome.stdout))
        (folder / f"{run}.json").write_text(json.dumps(said))

    def _call(
        self,
        folder: Path,
        *argv: str,
        before: Callable[[], None] = lambda: None,
        codes: tuple[int, ...] = (0,),
        still: bool = False,
    ) -> Outcome:
        environment = environment_in(folder)
        if still:
            old = environment.get("PYTHONPATH", "")
            environment["PYTHONPATH"] = f"{folder / 'still'}{os.pathsep}{old}".rstrip(os.pathsep)
        outcome = call(self._entry, argv, folder, environment, before=before)
        if outcome.code not in codes:
            sys.exit(f"cannot make {folder}: {argv} ended with {outcome.code}: {outcome.stderr}")
        return outcome


class _EndOnTheWay:
    """Sends its process a signal once a record file has a number of lines, always at this write."""

    def __init__(self, records: Path, lines: int, signal_number: int) -> None:
        self._records = records
        self._lines = lines
        self._signal = signal_number
        self._fsync = os.fsync

    def __call__(self) -> None:
        """Begin to watch, in the process that is to be ended."""
        _stop_clocks()
        os.fsync = self._watched  # type: ignore[assignment]

    def _watched(self, file: int) -> None:
        self._fsync(file)
        if self._records.exists() and self._records.read_bytes().count(b"\n") == self._lines:
            os.fsync = self._fsync
            os.kill(os.getpid(), self._signal)


def _stop_clocks() -> None:
    """Make a run take no time: its files hold seconds."""
    time.monotonic = lambda: 0.0


# --- Files --------------------------------------------------------------------------------------


def _write_configs(folder: Path) -> None:
    (folder / "plain.toml").write_text(PLAIN)
    (folder / "limits.toml").write_text(PLAIN + LIMITS)
    (folder / "fleet.tle").write_text(_tle(_satellites()))
    walker = "[constellation]\nplanes = 3\nsatellites_per_plane = 2\n"
    elements = '[constellation]\nkind = "elements"\nfile = "fleet.tle"\n'
    (folder / "elements.toml").write_text(PLAIN.replace(walker, elements))


def _write_elements(folder: Path) -> None:
    satellites = _satellites()
    records = [export_omm(satrec, name) for name, satrec in satellites]
    heads = list(records[0])
    rows = [",".join(heads), *(",".join(str(record[head]) for head in heads) for record in records)]
    (folder / "fleet.tle").write_text(_tle(satellites))
    (folder / "fleet.json").write_text(json.dumps(records, indent=1))
    (folder / "fleet.csv").write_text("\n".join(rows) + "\n")
    (folder / "fleet.xml").write_text(_omm_xml(records))


def _satellites() -> list[tuple[str, Satrec]]:
    return [(f"S{raan}-{phase}", _satellite(raan, phase)) for raan in (0, 90) for phase in (0, 120)]


def _satellite(raan_deg: int, mean_anomaly_deg: int) -> Satrec:
    radians, minutes = np.pi / 180, 1440.0
    epoch_days = (
        datetime(2026, 3, 1, tzinfo=UTC) - datetime(1949, 12, 31, tzinfo=UTC)
    ) / timedelta(days=1)
    satrec = Satrec()
    satrec.sgp4init(
        WGS72, "i", raan_deg + mean_anomaly_deg + 1, epoch_days, 1e-5, 0.0, 0.0, 1e-4, 0.0,
        53 * radians, mean_anomaly_deg * radians, 15.06 * 2 * np.pi / minutes, raan_deg * radians,
    )  # fmt: skip
    satrec.classification, satrec.intldesg, satrec.elnum, satrec.revnum = "U", "26001A", 1, 1
    return satrec


def _tle(satellites: list[tuple[str, Satrec]]) -> str:
    return "".join("\n".join((name, *export_tle(satrec))) + "\n" for name, satrec in satellites)


def _omm_xml(records: list[dict[str, object]]) -> str:
    """Write records as the segments of an NDM message."""
    meta = ("OBJECT_NAME", "OBJECT_ID", "CENTER_NAME", "REF_FRAME", "TIME_SYSTEM")
    mean = ("EPOCH", "MEAN_MOTION", "ECCENTRICITY", "INCLINATION", "RA_OF_ASC_NODE",
            "ARG_OF_PERICENTER", "MEAN_ANOMALY")  # fmt: skip

    def tags(record: dict[str, object], keys: tuple[str, ...]) -> str:
        return "".join(f"<{key}>{record[key]}</{key}>" for key in keys if key in record)

    segments = []
    for record in records:
        rest = tuple(key for key in record if key not in (*meta, *mean))
        segments.append(
            f"<omm><body><segment><metadata>{tags(record, meta)}</metadata><data>"
            f"<meanElements>{tags(record, mean)}</meanElements>"
            f"<tleParameters>{tags(record, rest)}</tleParameters></data></segment></body></omm>"
        )
    return '<?xml version="1.0" encoding="UTF-8"?>\n<ndm>\n' + "\n".join(segments) + "\n</ndm>\n"


def class_files() -> dict[str, bytes]:
    """Return small images of two classes."""
    files = {}
    for label, name in enumerate(("Forest", "River")):
        for i in range(6):
            pixels = (np.arange(16 * 16 * 3).reshape(16, 16, 3) * (i + 1) + 90 * label) % 256
            buffer = io.BytesIO()
            Image.fromarray(pixels.astype(np.uint8)).save(buffer, "PNG" if i % 2 else "JPEG")
            files[f"{name}/{name}_{i}.{'png' if i % 2 else 'jpg'}"] = buffer.getvalue()
    return files


def write_archive(path: Path, files: dict[str, bytes]) -> None:
    """Write a .zip, .tar or .tgz file with these members; equal ones give equal bytes."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        return
    is_packed = path.suffix == ".tgz"
    with tarfile.open(path, "w:gz") if is_packed else tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _write_images(folder: Path) -> None:
    files = class_files()
    for name, content in files.items():
        path = folder / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    rows = [f"{name},{10 + i},{20 + i}" for i, name in enumerate(files)]
    (folder / "geo.csv").write_text("name,latitude_deg,longitude_deg\n" + "\n".join(rows) + "\n")
    for suffix in ("zip", "tar", "tgz"):
        write_archive(folder / f"images.{suffix}", files)


def _write_bands(folder: Path) -> None:
    """Multispectral images: GeoTIFFs of every layout in class folders, and arrays in files."""
    pixels = (np.arange(12 * 8 * 8 * 4).reshape(12, 8, 8, 4) * 37 % 4000).astype(np.uint16)
    labels = np.arange(12) % 2
    layouts: tuple[dict[str, Any], ...] = (
        {"planarconfig": "contig"},
        {"planarconfig": "separate"},
        {"planarconfig": "contig", "compression": "zlib"},
        {"planarconfig": "contig", "tile": (16, 16)},
        {"planarconfig": "contig", "byteorder": ">", "bigtiff": True},
    )
    for i, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        layout = layouts[i % len(layouts)]
        place = [
            (33550, "d", 3, (10.0, 10.0, 0.0), True),
            (33922, "d", 6, (0.0, 0.0, 0.0, 4e5 + 1000.0 * i, 5e6, 0.0), True),
            (34735, "H", 12, (1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32631), True),
        ]
        path = folder / "tifs" / ("Forest", "River")[label] / f"{i}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        values = np.moveaxis(image, 2, 0) if layout["planarconfig"] == "separate" else image
        options = {"photometric": "minisblack", "extratags": place, "metadata": None, **layout}
        byteorder, bigtiff = options.pop("byteorder", None), options.pop("bigtiff", False)
        with tifffile.TiffWriter(path, byteorder=byteorder, bigtiff=bigtiff) as file:
            file.write(values, **options)
    arrays: dict[str, Any] = {"images": pixels.astype(np.float32), "labels": labels}
    arrays |= {"latitude_deg": np.linspace(-50, 50, 12), "longitude_deg": np.linspace(0, 90, 12)}
    np.savez(folder / "arrays.npz", **arrays)
    np.savez_compressed(folder / "packed.npz", **arrays)
    (folder / "npy").mkdir()
    with h5py.File(folder / "arrays.h5", "w", track_order=True) as file:
        for name, array in arrays.items():
            np.save(folder / "npy" / f"{name}.npy", array)
            packed = {"compression": "gzip", "chunks": (4, 8, 8, 4)} if name == "images" else {}
            file.create_dataset(name, data=array, **packed)
