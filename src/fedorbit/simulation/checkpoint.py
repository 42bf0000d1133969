"""Checkpoints: the state as safetensors, everything else as JSON with checksums of both.

The tensors are written first, then the JSON file that vouches for them and for itself; both are
written beside their place and renamed. So a JSON file belongs to a whole checkpoint unless the disk
damages it, and then the one before, which is kept, takes its place.
"""

import hashlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.numpy
from safetensors import SafetensorError

from fedorbit.errors import RunError
from fedorbit.files import replacing
from fedorbit.methods.base import State

KEEP = 2


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands after `rounds_done` rounds."""

    rounds_done: int
    state: State
    spent: dict[str, Any]
    """The ledger's totals, and seconds."""
    records_bytes: int
    """Length of the record file that belongs to this state."""


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint and drop all but the two newest."""
    name = f"checkpoint-{checkpoint.rounds_done:08d}"
    tensors = safetensors.numpy.save(checkpoint.state)
    with replacing(folder / f"{name}.safetensors") as partial:
        partial.write_bytes(tensors)
    vouch = {
        "rounds_done": checkpoint.rounds_done,
        "spent": checkpoint.spent,
        "records_bytes": checkpoint.records_bytes,
        "sha256": hashlib.sha256(tensors).hexdigest(),
    }
    with replacing(folder / f"{name}.json") as partial:
        partial.write_text(json.dumps({**vouch, "own_sha256": _digest(vouch)}, indent=2) + "\n")
    for old in _newest_first(folder)[KEEP:]:
        old.unlink(missing_ok=True)
        old.with_suffix(".safetensors").unlink(missing_ok=True)


def load_newest(folder: Path) -> Checkpoint | None:
    """Load the newest checkpoint that is whole; warn about any that is not, and set it aside.

    What a process that was killed left half-written is removed.
    """
    for leftover in folder.glob(".*.partial*"):
        leftover.unlink(missing_ok=True)
    damaged: list[str] = []
    aside: list[Path] = []
    for path in _newest_first(folder):
        try:
            checkpoint = _load(path)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
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


def _load(path: Path) -> Checkpoint:
    vouch = json.loads(path.read_text())
    if _digest({k: v for k, v in vouch.items() if k != "own_sha256"}) != vouch["own_sha256"]:
        raise ValueError("its numbers do not fit their checksum")
    tensors = path.with_suffix(".safetensors").read_bytes()
    if hashlib.sha256(tensors).hexdigest() != vouch["sha256"]:
        raise ValueError("its checksum does not fit")
    return Checkpoint(
        rounds_done=vouch["rounds_done"],
        state=safetensors.numpy.load(tensors),
        spent=vouch["spent"],
        records_bytes=vouch["records_bytes"],
    )


def _digest(vouch: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(vouch, sort_keys=True).encode()).hexdigest()


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.json"), reverse=True)
