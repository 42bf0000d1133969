"""The manifest of a run's folder: `run.json` binds its files together by SHA-256.

It keeps the settings that config.toml had, the checksums of the world file, of the element sets and
of the contact plan, and those of the user's own code. Its own checksum names the run: the first
record, every checkpoint and the summary carry it. Each record carries a checksum of itself and all
before it. So a file that was changed, or that belongs to another run, is found before it is used.

These checksums find damage and careless edits. They are no signature: a folder in which everything
was rewritten consistently is a run like any other.
"""

import json
import os
import stat
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedorbit.config import Config, load_values
from fedorbit.config.files import apply_overrides, changes_results, flat_settings
from fedorbit.config.inputs import own_files, with_files
from fedorbit.config.renamed import current_name, named_anew
from fedorbit.documents import (
    SEAL,
    DocumentError,
    digest,
    file_digest,
    parse_toml,
    read_json,
    read_text,
    require_seal,
    sealed,
)
from fedorbit.errors import RunError
from fedorbit.files import replacing
from fedorbit.inputs import kind_of
from fedorbit.simulation.schema import MANIFEST_FILE

CONFIG, WORLD, MANIFEST = "config.toml", "world.json", "run.json"
CONTACTS = "contacts.npy"
"""Contacts of a large plan, which would make the world file unwieldy."""
SHARED = (WORLD, CONTACTS)
"""Files that exported runs of the same world have in common."""
WORLDS = "worlds"
"""Folder beside exported runs that has these files, each once, named by its SHA-256."""
FORMAT = 2
"""Format of a run's folder: 1 had no manifest."""
MOST_MANIFEST_BYTES = 16 << 20


@dataclass(frozen=True)
class Manifest:
    """Settings, files and code of a run when it began."""

    settings: Mapping[str, Any]
    """Settings as in config.toml, flat."""
    files: Mapping[str, str]
    """SHA-256 of the files that are written before the first round."""
    code: Mapping[str, str]
    """SHA-256 of the user's own modules."""
    run_id: str
    """SHA-256 of all fields above: the id of the run in its other files."""

    def method_id(self, folder: str) -> str:
        """Return the id of the run in the files of one of its methods."""
        return digest(f"{self.run_id}/{folder}".encode())


def write_manifest(folder: Path, files: list[str], code: Mapping[str, str]) -> Manifest:
    """Bind what is in a run's folder before its first round."""
    document = sealed(
        {
            "format": FORMAT,
            "settings": _settings(read_stored(folder).values),
            "files": {name: digest((folder / name).read_bytes()) for name in files},
            "code": dict(code),
        }
    )
    with replacing(folder / MANIFEST) as partial:
        partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return _manifest(document)


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a run; None where it has not begun, or is of format 1."""
    path = folder / MANIFEST
    try:
        document = read_json(path, MANIFEST_FILE, MOST_MANIFEST_BYTES)
        require_seal(document)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DocumentError as error:
        raise changed(path, str(error)) from None
    if document["format"] != FORMAT:
        raise RunError(
            f"{path} is of format {document['format']}, this version reads {FORMAT}; "
            "use the version of fedorbit that wrote it"
        )
    return _manifest(document)


def _manifest(document: Mapping[str, Any]) -> Manifest:
    return Manifest(document["settings"], document["files"], document["code"], document[SEAL])


def changed(path: Path, why: str) -> RunError:
    """Return the error of a file that is not what the run has written."""
    return RunError(
        f"{path} was damaged or changed after the run wrote it ({why}); "
        "get the folder again from where it was made, or run this configuration again elsewhere"
    )


@dataclass(frozen=True)
class Stored:
    """The configuration in a run's folder, as text and as it was written there."""

    text: str
    values: dict[str, Any]


def read_stored(folder: Path) -> Stored:
    """Read config.toml of a run; refuse one that differs from what the run began with.

    Other settings of the engine or of trackers are a warning, since they change no result.
    """
    path = folder / CONFIG
    try:
        text = read_text(path)
        values = named_anew(parse_toml(text), str(path), warn=False)
        run = values.get("run")
        if not isinstance(run, dict) or not {"method", "rounds"} <= run.keys():
            raise DocumentError("run.method and run.rounds are missing")
    except DocumentError as error:
        raise RunError(
            f"{path} is not the configuration of a run ({error}); leave {folder} out"
        ) from None
    if (manifest := read_manifest(folder)) is not None:
        then = {current_name(key): value for key, value in manifest.settings.items()}
        _require_settings(path, _settings(values), then)
    return Stored(text, values)


def _require_settings(path: Path, now: Mapping[str, Any], then: Mapping[str, Any]) -> None:
    differing = sorted(key for key in now.keys() | then.keys() if now.get(key) != then.get(key))
    if not differing:
        return
    told = ", ".join(
        f"{key} was {_shown(then.get(key))} and is {_shown(now.get(key))}" for key in differing[:8]
    ) + (" …" if len(differing) > 8 else "")
    if not any(map(changes_results, differing)):
        warnings.warn(f"{path} was changed after the run began: {told}", stacklevel=4)
        return
    raise RunError(
        f"{path} was changed after the run began: {told}; put it back, or start a new run with "
        "these settings and --out"
    )


def _shown(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings flat, in values that JSON has."""
    flat: dict[str, Any] = json.loads(json.dumps(flat_settings(values), default=str))
    return flat


def stored_config(folder: Path) -> Config:
    """Return the configuration of a run's folder; files that it names are looked for there."""
    return overridden(folder, read_stored(folder), ())


def overridden(folder: Path, stored: Stored, overrides: Sequence[str]) -> Config:
    """Return the configuration of a run's folder with some settings changed."""
    config = load_values(apply_overrides(stored.values, overrides), str(folder / CONFIG))
    files = own_files(config)
    for key, file in files.items():
        if file.name != str(file):
            raise RunError(
                f"{folder / CONFIG}: {key} is {file}, which is outside of the run's folder; copy "
                f"the file into {folder} and name it there"
            )
    return with_files(config, {key: folder / file for key, file in files.items()})


def bound_file(folder: Path, name: str, manifest: Manifest | None) -> Path:
    """Return the path of a file that a manifest binds: in the run's folder, or in `WORLDS`."""
    path = folder / name
    if manifest is None or name not in SHARED or name not in manifest.files or path.exists():
        return path
    shared = folder.parent / WORLDS / manifest.files[name]
    is_link = shared.is_symlink() or shared.parent.is_symlink()
    return shared if shared.is_file() and not is_link else path


def share_file(folder: Path, name: str, manifest: Manifest) -> None:
    """Move a file of a run to `WORLDS`, where other runs find it, too."""
    shared = folder.parent / WORLDS / manifest.files[name]
    shared.parent.mkdir(exist_ok=True)
    (folder / name).replace(shared)


def require_files(folder: Path, manifest: Manifest) -> None:
    """Refuse files of a run that are not what they were when it began."""
    for name, expected in manifest.files.items():
        path = bound_file(folder, name, manifest)
        try:
            found = file_digest(path)
        except FileNotFoundError:
            raise changed(path, "it is missing") from None
        except DocumentError as error:
            raise changed(path, str(error)) from None
        if found != expected:
            raise changed(path, f"its SHA-256 is not the one in {MANIFEST}")


def refuse_links(folder: Path) -> None:
    """Refuse a folder in which something stands for a place elsewhere, or is no regular file.

    What is read from or written to a run's folder must be in it.
    """
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:  # a run that is under way has just removed it
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise RunError(
                    f"{path} is {kind_of(mode)}, which is not followed in the folder of a run; "
                    "remove it"
                )
