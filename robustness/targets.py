"""Files that are damaged, and the commands that are called on them."""

import hashlib
import json
import random
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archives import mutate_archive
from material import CACHED, Material
from mutations import change_value, copy_tree, index, mutate, odd_toml, to_toml
from traps import Traps, evil_name

from fedorbit.documents import SEAL, sealed

RUNS = {"finished": ("plain", "limits", "elements"), "interrupted": ("killed", "stopped")}
SMALL = ("plain.toml", "limits.toml", "elements.toml")


@dataclass(frozen=True)
class Call:
    """One call of the command line, and what is expected of it."""

    argv: tuple[str, ...]
    keeps: bool = True
    """True if a refusal must leave all files as they were."""
    results: tuple[str, dict[str, Any]] | None = None
    """Results that it must print if it prints any: the command's name, and its baseline."""
    may_miss: bool = False

    def as_json(self) -> "Call":
        """Return the same call with `--json`."""
        return Call((*self.argv, "--json"), self.keeps, self.results, self.may_miss)


@dataclass
class Case:
    """One attack in the making: where, from which numbers, and what was done."""

    rng: random.Random
    work: Path
    cache: Path
    traps: Traps
    material: Material
    done: list[str] = field(default_factory=list)

    def mutate(self, path: Path) -> None:
        """Damage one file."""
        self.done.append(mutate(self.rng, path, self.traps.outside))

    def mutate_one_of(self, folder: Path, pattern: str = "*") -> Path | None:
        """Damage one file in or below a folder; return which."""
        files = sorted(p for p in folder.rglob(pattern) if p.is_file() and not p.is_symlink())
        files = [path for path in files if path.suffix not in (".png", ".svg", ".html", ".lock")]
        if not files:
            return None
        kinds = sorted({_kind(path) for path in files})  # checkpoints are many, summaries are few
        kind = kinds[index(self.rng, len(kinds))]
        files = [path for path in files if _kind(path) == kind]
        path = files[index(self.rng, len(files))]
        self.done.append(str(path.parent.relative_to(self.work.parent)))
        self.mutate(path)
        return path


def _kind(path: Path) -> str:
    """Return what files of one kind have in common: their name without numbers."""
    return re.sub(r"[0-9]+", "", path.name)


Prepare = Callable[[Case], list[Call]]


@dataclass(frozen=True)
class Target:
    """Something to damage; `prepare` puts it into a case's folder and names the calls."""

    name: str
    material: tuple[str, ...]
    prepare: Prepare


def _config(case: Case) -> list[Call]:
    copy_tree(case.material.folder("configs"), case.work / "c")
    file = case.work / "c" / case.rng.choice(SMALL)
    for _ in range(case.rng.choice((1, 1, 2))):
        if file.is_file() and not file.is_symlink():
            case.mutate(file)
    return _on_config(case, [f"c/{file.name}"])


def _override(case: Case) -> list[Call]:
    copy_tree(case.material.folder("configs"), case.work / "c")
    file = case.work / "c" / case.rng.choice(SMALL)
    keys = sorted(_keys(case))
    arguments = [f"c/{file.name}"]
    for _ in range(case.rng.choice((1, 1, 2, 3))):
        key = keys[index(case.rng, len(keys))]
        if case.rng.random() < 0.1:
            key = case.rng.choice(
                ("", ".", "stations.99.name", "stations.x", f"{key}.x", "a" * 999)
            )
        text = f"{key}={odd_toml(case.rng)}"[:100_000]
        case.done.append(text[:60])
        arguments += ["-o", text.replace("\0", "")]
    return _on_config(case, arguments)


def _keys(case: Case) -> set[str]:
    found: set[str] = {"model.name", "model.classifier", "tracking.tensorboard", "data.share"}
    for name in SMALL:
        document = tomllib.loads((case.material.folder("configs") / name).read_text())
        document.pop("extends")
        for table, value in document.items():
            found |= {f"{table}.{key}" for key in value} if isinstance(value, dict) else {table}
    return found


def _on_config(case: Case, arguments: list[str]) -> list[Call]:
    calls = {
        "show": Call(("config", "show", *arguments)),
        "orbits": Call(("orbits", *arguments)),
        "partition": Call(("data", "partition", *arguments)),
        "run": Call(("run", *arguments, "-q", "--out", "new")),
    }
    chosen = calls[case.rng.choice(list(calls))]
    if chosen is calls["run"]:
        return [case.rng.choice((chosen, chosen.as_json()))]
    return [chosen, chosen.as_json()]


def _elements(case: Case) -> list[Call]:
    copy_tree(case.material.folder("configs"), case.work / "c")
    source = case.rng.choice(sorted(case.material.folder("elements").glob("fleet.*")))
    file = case.work / "c" / source.name
    file.write_bytes(source.read_bytes())
    for _ in range(case.rng.choice((1, 1, 1, 2, 4))):
        if file.is_file() and not file.is_symlink():
            case.mutate(file)
    arguments = ("c/elements.toml", "-o", f"constellation.file=c/{file.name}")
    orbits = Call(("orbits", *arguments))
    if case.rng.random() < 0.3:
        return [Call(("run", *arguments, "-q", "--out", "new", "--json"))]
    return [orbits, orbits.as_json()]


def _archive(case: Case) -> list[Call]:
    copy_tree(case.material.folder("images"), case.work / "images")
    source = case.rng.choice(("images.zip", "images.tar", "images.tgz", "folder"))
    path = case.work / "images" / source
    if source == "folder":
        case.mutate_one_of(path)
    elif case.rng.random() < 0.5:
        case.done.append(mutate_archive(case.rng, path))
    else:
        case.mutate(path)
    geo = []
    if case.rng.random() < 0.3:
        geo = ["--geo", "images/geo.csv"]
        if case.rng.random() < 0.5:
            case.mutate(case.work / "images" / "geo.csv")
    prepare = ("data", "prepare", "folder", "--source", f"images/{source}", "--name", "new", *geo)
    listed = Call(("data", "list"))
    return [case.rng.choice((Call(prepare), Call(prepare).as_json())), listed.as_json()]


def _bands(case: Case) -> list[Call]:
    copy_tree(case.material.folder("bands"), case.work / "bands")
    source = case.rng.choice(("tifs", "tifs", "arrays.npz", "packed.npz", "arrays.h5", "npy"))
    path = case.work / "bands" / source
    for _ in range(case.rng.choice((1, 1, 2, 4))):
        if path.is_dir():
            case.mutate_one_of(path)
        elif path.is_file() and not path.is_symlink():
            case.mutate(path)
    kind = "folder" if source == "tifs" else "arrays"
    choice = case.rng.choice(((), ("--bands", "4,1"), ("--size", "8"), ("--layout", "chw")))
    argv = ("data", "prepare", kind, "--source", f"bands/{source}", "--name", "new", *choice)
    listed = Call(("data", "list"))
    return [case.rng.choice((Call(argv), Call(argv).as_json())), listed.as_json()]


def _cache(case: Case) -> list[Call]:
    case.cache.rmdir()
    copy_tree(case.material.folder("cache") / "prepared", case.cache)
    copy_tree(case.material.folder("configs"), case.work / "c")
    dataset = case.cache / CACHED
    for _ in range(case.rng.choice((1, 1, 2))):
        case.mutate_one_of(dataset)
    if case.rng.random() < 0.5:
        _vouch_again(case, dataset)
    listed, small = Call(("data", "list")), f"data.name={CACHED}"
    arguments = ("c/plain.toml", "-o", small, "-o", "training.batch=4")
    others = (
        Call(("data", "partition", *arguments)),
        Call(("run", *arguments, "-q", "--out", "new")),
        Call(("data", "prepare", "folder", "--name", CACHED, "--source", "c")),
        Call(("data", "inspect", CACHED)),
    )
    chosen = case.rng.choice(others)
    return [listed, listed.as_json(), case.rng.choice((chosen, chosen.as_json()))]


def _vouch_again(case: Case, dataset: Path) -> None:
    """Make `dataset.json` agree with files that were damaged, to get behind its checks."""
    if not (dataset / "dataset.json").is_file():
        return
    try:
        description = json.loads((dataset / "dataset.json").read_bytes())
        for name, entry in description["files"].items():
            content = (dataset / name).read_bytes() if (dataset / name).is_file() else b""
            entry.update(size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        (dataset / "dataset.json").write_text(json.dumps(description))
        case.done.append("dataset.json agrees")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return


def _run_folder(state: str) -> Prepare:
    def prepare(case: Case) -> list[Call]:
        name = case.rng.choice(RUNS[state])
        folder = copy_tree(case.material.folder("runs") / name, case.work / "given")
        baseline = case.material.run_baseline(name)
        forged = False
        if case.rng.random() < 0.1:
            _set_traps(case, folder / "config.toml", folder, "given")
        elif case.rng.random() < 0.1:
            forged = _forge_checkpoint(case, folder)
        else:
            for _ in range(case.rng.choice((1, 1, 1, 2, 3))):
                case.mutate_one_of(folder)
        reported = baseline.get("report") if not forged else None
        resumed = baseline["resume"] if not forged else None
        report = Call(("report", "given"), results=("report", reported) if reported else None)
        resume = Call(
            ("run", "--resume", "given", "-q"),
            keeps=False,
            results=("resume", resumed) if resumed else None,
        )
        first, second = case.rng.sample((report, resume), 2)
        # A report changes nothing; what follows a resumed run is about what that has made.
        results = second.results if first is report else None
        again = Call(second.argv, second.keeps, results)
        return [first.as_json(), first, again.as_json(), again]

    return prepare


def _set_traps(case: Case, config: Path, folder: Path, module: str) -> None:
    """Make a configuration name a module in its folder, or an address that it must not call."""
    document = tomllib.loads(config.read_text(encoding="utf-8"))
    kind = case.rng.choice(("model", "method", "mlflow", "ray"))
    case.traps.plant_module(folder)
    if kind == "model":
        document["model"] = {"name": evil_name(case.rng, module), "classifier": "fc"}
    elif kind == "method":
        document["run"]["method"] = [evil_name(case.rng, module), *document["run"]["method"]]
    elif kind == "mlflow":
        uri = f"http://{case.traps.address}"
        document["tracking"] = {"mlflow": True, "mlflow_uri": uri}
    else:
        document["engine"] |= {"kind": "ray", "ray_address": case.traps.address}
    config.write_text(to_toml(document), encoding="utf-8")
    case.done.append(f"{config.name}: trap {kind}")
    if case.rng.random() < 0.5:  # without it a finished run has nothing to do
        for summary in folder.rglob("summary.json"):
            summary.unlink()
        case.done.append("no summary")


def _forge_checkpoint(case: Case, folder: Path) -> bool:
    """Change a number in a checkpoint and sign it again: no check can notice, nothing may break."""
    files = sorted(folder.rglob("checkpoint-*.json"))
    path = files[index(case.rng, len(files))]
    document = json.loads(path.read_text())
    del document[SEAL]
    described, raw, changed = change_value(case.rng, document)
    try:
        changed = json.loads(json.dumps(changed).replace(json.dumps("@@raw value@@"), raw))
        text = json.dumps(sealed(changed) if isinstance(changed, dict) else changed, indent=2)
    except (ValueError, RecursionError):
        return True
    path.write_text(text + "\n")
    for summary in folder.rglob("summary.json"):
        summary.unlink()
    case.done.append(f"{path.name}: {described}, signed again, no summary")
    return True


def _study_file(case: Case) -> list[Call]:
    copy_tree(case.material.folder("study") / "study", case.work / "given")
    file = case.work / "tiny.toml"
    file.write_bytes((case.material.folder("study") / "tiny.toml").read_bytes())
    for _ in range(case.rng.choice((1, 1, 2))):
        if file.is_file() and not file.is_symlink():
            case.mutate(file)
    extra = ["-o", f"run.rounds={odd_toml(case.rng)[:9999]}"] if case.rng.random() < 0.1 else []
    out = case.rng.choice((("--out", "given"), ()))
    command = case.rng.choice(("status", "table"))
    call = Call(("study", command, file.name, *out, *extra))
    return [call, call.as_json()]


def _study_folder(case: Case) -> list[Call]:
    folder = copy_tree(case.material.folder("study") / "study", case.work / "given")
    only_runs = False
    if case.rng.random() < 0.1:
        configs = sorted(folder.rglob("*.toml"))
        config = configs[index(case.rng, len(configs))]
        if config.name == "study.toml":
            document = tomllib.loads(config.read_text())
            document["settings"]["model"] = {
                "name": evil_name(case.rng, "given"),
                "classifier": "x",
            }
            config.write_text(to_toml(document))
            case.traps.plant_module(folder)
        else:
            module = ".".join(config.parent.relative_to(case.work).parts)
            _set_traps(case, config, config.parent, module)
    else:
        paths = [case.mutate_one_of(folder) for _ in range(case.rng.choice((1, 1, 2)))]
        hidden = ("study.toml", ".study")
        only_runs = not any(set(hidden) & set(path.parts) for path in paths if path)
    baseline = ("table", case.material.study_baseline()) if only_runs else None
    calls = [
        Call(("study", "table", "given"), results=baseline, may_miss=True),
        Call(("study", "status", "given")),
        Call(("report", "given")),
    ]
    chosen = case.rng.choice(calls)
    if case.rng.random() < 0.05:
        return [Call(("study", "export", "given", "--to", "copy", "--json"), keeps=False)]
    return [chosen.as_json(), Call(chosen.argv)]


ALL = (
    Target("config", ("configs",), _config),
    Target("override", ("configs",), _override),
    Target("elements", ("configs", "elements"), _elements),
    Target("archive", ("images",), _archive),
    Target("bands", ("bands",), _bands),
    Target("cache", ("cache", "configs"), _cache),
    Target("finished run", ("runs",), _run_folder("finished")),
    Target("interrupted run", ("runs",), _run_folder("interrupted")),
    Target("study file", ("study",), _study_file),
    Target("study folder", ("study",), _study_folder),
)

WEIGHTS = {"finished run": 3, "interrupted run": 2, "study folder": 2}
TARGETS = tuple(target for target in ALL for _ in range(WEIGHTS.get(target.name, 1)))
"""Case n is of target n modulo their number."""
