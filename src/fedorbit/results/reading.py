"""Results of a method in its run's folder, with every file compared to what the run wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedorbit.simulation.checkpoint import warn_of_damage
from fedorbit.simulation.manifest import read_manifest, refuse_links
from fedorbit.simulation.records import (
    RECORDS,
    Record,
    headline,
    method_folder,
    method_id,
    noted,
    read_records,
    read_setting,
    read_summary,
)


@dataclass(frozen=True, eq=False)
class MethodResults:
    """Records, and the summary if the method is finished."""

    records: list[Record]
    summary: dict[str, Any] | None

    @property
    def rounds_done(self) -> int:
        """Rounds up to the last record."""
        return int(self.records[-1]["round"]) + 1 if self.records else 0

    @property
    def figures(self) -> dict[str, Any]:
        """Final figures: from the summary, or for an unfinished run from its records so far."""
        if self.summary is not None:
            return self.summary
        last = self.records[-1] if self.records else {}
        spent = {
            key: value
            for key, value in last.items()
            if key.endswith("_bytes") or key in ("samples_trained", "seconds")
        }
        return {**headline(self.records), **spent, "rounds": self.rounds_done}

    @property
    def noted(self) -> dict[str, dict[str, float]]:
        """Numbers that the method noted over the run, or so far, by name."""
        found = noted(self.records) if self.summary is None else self.summary
        told: dict[str, dict[str, float]] = found.get("noted", {})
        return told


def add_hours(records: Sequence[Record], round_s: float) -> None:
    """Give records of earlier versions, which have none, the hours at the end of their round."""
    for record in records:
        record.setdefault("hours", (record["round"] + 1) * round_s / 3600.0)


def read_results(run: Path, method: str, with_checkpoints: bool = True) -> MethodResults:
    """Read what a method has left so far; a method that has not begun has left nothing.

    A damaged checkpoint is a warning, any other damage an error. Checkpoints may be gigabytes;
    with `with_checkpoints=False` they are not read.
    """
    folder = method_folder(run, method)
    summary = read_summary(folder)  # before the records, which another process may just be adding
    if summary is None and not (folder / RECORDS).exists():
        return MethodResults([], None)
    records = read_records(folder)
    if with_checkpoints and (run_id := method_id(folder)) is not None:
        warn_of_damage(folder, run_id)
    return MethodResults(records, summary)


def finished(run: Path, method: str, with_records: bool = True) -> MethodResults | None:
    """Return a method's results if it is finished, and if the files of its run are whole.

    With `with_records=False`, a run of format 1, which cannot be checked, may lack its records.
    """
    summary = read_summary(method_folder(run, method))
    if summary is None:
        return None
    if read_manifest(run) is not None:
        refuse_links(run)
        read_setting(run)
    elif not with_records:
        return MethodResults([], summary)
    return read_results(run, method)
