"""Data that trackers log of a method: settings, provenance, rounds and headline."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedorbit.config import Config
from fedorbit.config.files import flat_settings
from fedorbit.simulation.provenance import provenance
from fedorbit.simulation.records import Record, mean, method_folder, read_records

BYTES = ("to_ground", "from_ground", "isl", "unlinked")

Setting = bool | int | float | str


@dataclass(frozen=True)
class Subject:
    """One method of a run."""

    run: Path
    method: str
    config: Config

    @property
    def folder(self) -> Path:
        """Folder of the method's records."""
        return method_folder(self.run, self.method)

    @property
    def settings(self) -> dict[str, Setting]:
        """The configuration, flat; without what is not set and without the trackers themselves."""
        values = self.config.model_dump(mode="json", exclude={"tracking"}, exclude_none=True)
        return {
            "method": self.method,
            **{
                key: value if isinstance(value, Setting) else str(value)
                for key, value in flat_settings(values).items()
            },
        }

    @property
    def origin(self) -> dict[str, str]:
        """Commit, version, hash of the configuration and the like."""
        told = provenance(self.config, self.config.engine.backend)
        return {key: str(value) for key, value in told.items() if value is not None}

    def records_so_far(self) -> Iterator[tuple[Record, float]]:
        """Yield what is recorded, with a time each: as if the run had never been interrupted."""
        records = read_records(self.folder)
        for record in records:
            yield record, time.time() - (records[-1]["seconds"] - record["seconds"])


def metrics(record: Record) -> dict[str, float]:
    """Return the numbers of an evaluated round; without unknown ones."""
    return _known(
        {
            "accuracy": record["accuracy"],
            "spread": record["spread"],
            "loss": mean(record["orbit_loss"]),
            **{f"orbit_accuracy/{o}": value for o, value in enumerate(record["orbit_accuracy"])},
            "visible_orbits": len(record["visible"]),
            **{f"bytes/{kind}": record[f"{kind}_bytes"] for kind in BYTES},
            "samples_trained": record["samples_trained"],
        }
    )


def headline_metrics(summary: dict[str, Any]) -> dict[str, float]:
    """Return the means of the last ten evaluated rounds."""
    return _known(
        {
            "summary/accuracy": summary["accuracy"],
            "summary/spread": summary["spread"],
            "summary/balanced_accuracy": summary.get("balanced_accuracy"),
            "summary/macro_f1": summary.get("macro_f1"),
            **{f"summary/orbit_accuracy/{o}": a for o, a in enumerate(summary["per_orbit"])},
        }
    )


def _known(values: dict[str, float | None]) -> dict[str, float]:
    return {key: float(value) for key, value in values.items() if value is not None}
