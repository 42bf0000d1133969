"""Checkpoints: the state as safetensors, everything else as JSON with checksums of both.

The arrays are written first, then the JSON file with their checksum and its own; both are written
beside their place and renamed. So a JSON file belongs to a whole checkpoint unless the disk damages
it, and then the one before, which is kept, takes its place. One of another format is whole, and is
left alone: the version that wrote it can continue from it.
"""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.numpy
from safetensors import SafetensorError

from fedorbit.documents import (
    DocumentError,
    digest,
    file_digest,
    read_bytes,
    read_json,
    require,
    require_seal,
    sealed,
)
from fedorbit.errors import RunError
from fedorbit.files import replacing
from fedorbit.simulation.schema import CHECKPOINT_FILE, SEALED_FILE

if TYPE_CHECKING:  # PyTorch takes a second to import, and a report does without it
    from fedorbit.methods.base import State

FORMAT = 3
"""1 had no number."""
KEEP = 2
WORLD_ARRAY = "world:"
"""Begin of the names of arrays that are not the method's."""


@dataclass(frozen=True)
class Checkpoint:
    """State of a run after `rounds_done` rounds."""

    rounds_done: int
    state: "State"
    spent: dict[str, Any]
    """Seconds, and the world's part: the ledger, mail and jobs under way, clocks and batteries."""
    under_way: "State"
    """Arrays of the world's part."""
    records_bytes: int
    """Length of the record file that belongs to this state."""
    chain: str
    """Chain of its last record, or the run's checksum where there is none."""


def save(folder: Path, run_id: str, checkpoint: Checkpoint) -> None:
    """Write a checkpoint of a method and drop all but the two newest."""
    name = f"checkpoint-{checkpoint.rounds_done:08d}"
    under_way = {f"{WORLD_ARRAY}{key}": array for key, array in checkpoint.under_way.items()}
    arrays = safetensors.numpy.save({**checkpoint.state, **under_way})
    with replacing(folder / f"{name}.safetensors") as partial:
        partial.write_bytes(arrays)
    document = {
        "format": FORMAT,
        "run_id": run_id,
        "rounds_done": checkpoint.rounds_done,
        "spent": checkpoint.spent,
        "records_bytes": checkpoint.records_bytes,
        "records": checkpoint.chain,
        "arrays_sha256": digest(arrays),
        "arrays_bytes": len(arrays),
    }
    with replacing(folder / f"{name}.json") as partial:
        partial.write_text(json.dumps(sealed(document), indent=2) + "\n")
    for old in _newest_first(folder)[KEEP:]:
        old.unlink(missing_ok=True)
        old.with_suffix(".safetensors").unlink(missing_ok=True)


def load_newest(folder: Path, run_id: str) -> Checkpoint | None:
    """Load the newest checkpoint that is whole; warn about any that is not, and set it aside.

    One of another format is refused.
    """
    damaged: list[str] = []
    aside: list[Path] = []
    for path in _newest_first(folder):
        try:
            checkpoint = _load(path, run_id)
        except (OSError, DocumentError, SafetensorError) as error:
            damaged.append(f"{path.name} ({error})")
            aside += [path, path.with_suffix(".safetensors")]
            continue
        if damaged:
            warnings.warn(
                f"{folder}: damaged checkpoint {', '.join(damaged)}; going on from {path.name}",
                stacklevel=2,
            )
            for file in aside:  # it must not count as one of the two that are kept
                if file.exists():
                    file.replace(file.with_name(f"{file.name}.damaged"))
        return checkpoint
    if damaged:
        raise RunError(
            f"{folder}: no checkpoint is whole, {', '.join(damaged)}; start again in another folder"
        )
    return None


def warn_of_damage(folder: Path, run_id: str) -> None:
    """Warn of checkpoints that are not what the run has written; no result depends on them."""
    for path in _newest_first(folder):
        try:
            document = _sealed(path)
            if _format(document) != FORMAT:
                continue  # whole, and of a shape that is not known here
            _require_numbers(document, run_id)
            if file_digest(path.with_suffix(".safetensors")) != document["arrays_sha256"]:
                raise DocumentError("its arrays do not fit their checksum")
        except (OSError, DocumentError) as error:
            if not path.exists():  # dropped just now, by a run that is under way
                continue
            warnings.warn(
                f"{path} was damaged or changed after the run wrote it ({error}); the records do "
                "not depend on it",
                stacklevel=2,
            )


def _sealed(path: Path) -> dict[str, Any]:
    """Read the numbers of a checkpoint of any format."""
    document: dict[str, Any] = read_json(path, SEALED_FILE)
    require_seal(document)
    return document


def _format(document: dict[str, Any]) -> int:
    return int(document.get("format", 1))


def _require_numbers(document: dict[str, Any], run_id: str) -> None:
    require(document, CHECKPOINT_FILE)
    if document["run_id"] != run_id:
        raise DocumentError("it belongs to another run or method")


def _load(path: Path, run_id: str) -> Checkpoint:
    document = _sealed(path)
    if (found := _format(document)) != FORMAT:
        raise RunError(
            f"{path} was written by another version of fedorbit: its format is {found}, this "
            f"version reads {FORMAT}; resume with the version that wrote it, or run again in "
            "another folder"
        )
    _require_numbers(document, run_id)
    # A larger file is refused unread; a number that is too large does not make a file larger.
    arrays = read_bytes(path.with_suffix(".safetensors"), document["arrays_bytes"])
    if digest(arrays) != document["arrays_sha256"]:
        raise DocumentError("its arrays do not fit their checksum")
    named = safetensors.numpy.load(arrays)
    worlds = {name for name in named if name.startswith(WORLD_ARRAY)}
    return Checkpoint(
        rounds_done=document["rounds_done"],
        state={name: array for name, array in named.items() if name not in worlds},
        spent=document["spent"],
        under_way={name.removeprefix(WORLD_ARRAY): named[name] for name in worlds},
        records_bytes=document["records_bytes"],
        chain=document["records"],
    )


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.json"), reverse=True)
