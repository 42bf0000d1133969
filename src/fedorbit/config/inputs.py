"""Files that a configuration names beside its images: element sets, contact plan, weights.

A run copies them into its folder, a study sends them along, and of each only the content counts.
"""

from collections.abc import Mapping
from pathlib import Path

from fedorbit.config.schema import Config, ElementsSection

COPIES = {"constellation.file": "elements", "schedule.plan": "plan", "model.weights": "weights"}
"""Names of copies in a run's folder, without the extension."""


def input_files(config: Config) -> dict[str, Path]:
    """Return the files to read, by the key that names each."""
    files = {}
    if isinstance(config.constellation, ElementsSection):
        files["constellation.file"] = config.constellation.path
    if config.schedule.plan is not None:
        files["schedule.plan"] = config.schedule.plan
    if config.model.weights is not None:
        files["model.weights"] = config.model.weights
    return files


def own_files(config: Config) -> dict[str, Path]:
    """Return the same without what comes with the package."""
    files = input_files(config)
    if isinstance(config.constellation, ElementsSection) and config.constellation.is_bundled:
        del files["constellation.file"]
    return files


def with_files(config: Config, files: Mapping[str, Path]) -> Config:
    """Return a configuration that names other files."""
    for key, file in files.items():
        section, name = key.split(".")
        changed = getattr(config, section).model_copy(update={name: file})
        config = config.model_copy(update={section: changed})
    return config


def anywhere(config: Config) -> Config:
    """Return the same with files that can be found from any folder of this machine."""
    return with_files(config, {key: file.resolve() for key, file in own_files(config).items()})


def copy_name(key: str, file: Path) -> str:
    """Return what the copy of a file in a run's folder is called; no other file there is."""
    return f"{COPIES[key]}{file.suffix}"


def copies(config: Config) -> dict[str, Path]:
    """Return the files to copy into a run's folder, by the name of the copy."""
    return {copy_name(key, file): file for key, file in input_files(config).items()}
