"""From a study's file to its cells, every one with a full, checked configuration."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedorbit.config.explain import explain, nearest
from fedorbit.config.files import changes_results, flat_settings, literal, parse_value, preset_names
from fedorbit.documents import DocumentError, parse_toml, read_text
from fedorbit.errors import ConfigError, RunError
from fedorbit.files import replacing
from fedorbit.simulation.records import STUDY
from fedorbit.studies.grid import Cell, expand
from fedorbit.studies.schema import DATASET, SEED, StudyFile, TableSection, axis_key

QUICK_SETTINGS = {
    "data.synthetic.samples": 2000,
    "run.rounds": 100,
}
QUICK_AXES: dict[str, Any] = {DATASET: ["synthetic"], SEED: [0]}
"""Settings of --quick in any study: small synthetic images, one seed, few rounds."""


@dataclass(frozen=True)
class Study:
    """A study with all its cells; several cells may share a run where their settings agree."""

    name: str
    file: StudyFile
    cells: tuple[Cell, ...]
    folder: Path | None = None
    """The folder of runs that it was loaded from; None for a shipped study or a file."""
    given: tuple[str, ...] = ()
    """Overrides given when the study was loaded, beside those stored in its folder."""

    @property
    def runs(self) -> list[Cell]:
        """One cell per run, seed by seed, so that whole tables come early."""
        seeds = list(dict.fromkeys(cell.axes[SEED] for cell in self.cells))
        distinct = {cell.slug: cell for cell in self.cells}.values()
        return sorted(distinct, key=lambda cell: seeds.index(cell.axes[SEED]))

    @property
    def quick(self) -> bool:
        """True for a small stand-in on synthetic images."""
        return self.file.is_quick

    @property
    def changes(self) -> dict[str, str]:
        """Overrides of all cells that may change results."""
        pairs = (override.partition("=")[::2] for override in self.file.overrides)
        changes = {key.strip(): value.strip() for key, value in pairs}
        return {key: value for key, value in changes.items() if changes_results(key)}

    def published(self, cell: Cell) -> list[float] | None:
        """Return published accuracy and spread; None unless the cell has the published settings."""
        if self.quick or self.changes or cell.variant is not None or cell.extra:
            return None
        of_dataset = self.file.published.get(cell.config.data.name, {})
        return of_dataset.get(cell.config.partition.scheme, {}).get(cell.method)

    @property
    def default_out(self) -> Path:
        """Folder of its runs unless another is given."""
        return Path("studies") / (f"{self.name}-quick" if self.quick else self.name)


def shipped_names() -> list[str]:
    """Names of the studies in the package."""
    folder = resources.files("fedorbit") / "studies" / "shipped"
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")


def study_text(source: str | Path) -> str:
    """Return the TOML of a shipped study, a file, or the folder of a study that was run."""
    return _read(source)[0]


def load_study(
    source: str | Path,
    *,
    quick: bool = False,
    seeds: Sequence[int] | None = None,
    overrides: Sequence[str] = (),
) -> Study:
    """Load a shipped study by name, a file, or a study's folder; check every cell.

    An override of an axis selects among its values or takes their place; any other is laid over
    all cells.
    """
    text, where, folder, default_name = _read(source)
    file = _parse(text, where)
    name = file.name or default_name
    file = file.model_copy(update={"name": name, "base": _anchored(file.base, folder, where)})
    if quick and not file.is_quick:
        file = _quick(file)
    file = _overridden(file, overrides, seeds)
    loaded_from = folder if where == str(folder / STUDY) else None
    return Study(name, file, expand(name, file), loaded_from, tuple(overrides))


def refuse_other_study(study: Study, folder: Path) -> None:
    """Refuse a folder of another study, whose file and tables would be overwritten."""
    if not (folder / STUDY).exists():
        return
    there, name = load_study(folder).default_out.name, study.default_out.name
    if there != name:
        raise RunError(
            f"{folder} holds the study {there!r}, not {name!r}; choose another folder for it"
        )


def write_study(study: Study, folder: Path) -> None:
    """Write the study as resolved, with its cells, into the folder of its runs.

    Cells of earlier runs, from another part of the study, are kept for readers of the results.
    """
    file = study.file
    lines = ["# Written by `fedorbit study run`; layout: see the module fedorbit.studies."]
    plain = ("name", "title", "base", "is_quick")
    lines += [f"{key} = {literal(getattr(file, key))}" for key in plain]
    lines.append(f"overrides = {literal(list(file.overrides))}")
    lines += _table_lines("[settings]", flat_settings(file.settings, number_lists=False))
    lines += _table_lines("[common]", file.common)
    for axes in file.grid:
        lines += _table_lines("[[grid]]", axes)
    for variant in file.variants:
        lines += _table_lines("[[variants]]", variant.model_dump(exclude_none=True))
    lines += _table_lines("[table]", _table_entries(file.table))
    lines += _table_lines("[resources]", file.resources.model_dump())
    lines += _table_lines("[published]", file.published)
    for described in [*_cells(study), *_cells_of_other_runs(study, folder)]:
        lines += _table_lines("[[cells]]", described)
    with replacing(folder / STUDY) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _table_entries(table: TableSection) -> dict[str, Any]:
    """Return the keys of the table; `groups` and `metrics` only if they are not the defaults."""
    defaults = table.model_dump(exclude_defaults=True)
    later = ("groups", "metrics")
    return {k: v for k, v in table.model_dump().items() if k not in later or k in defaults}


def _cells(study: Study) -> Iterator[dict[str, Any]]:
    for cell in study.cells:
        published = study.published(cell)
        yield {**cell.described(), **({"published": published} if published else {})}


def _cells_of_other_runs(study: Study, folder: Path) -> list[dict[str, Any]]:
    if not (folder / STUDY).exists():
        return []
    others = {path.name for path in folder.iterdir()} - {cell.slug for cell in study.cells}
    written = _parse(_read(folder)[0], str(folder / STUDY)).cells
    return [cell for cell in written if cell.get("folder") in others]


def _table_lines(head: str, entries: Mapping[str, Any]) -> list[str]:
    bare = re.compile("[A-Za-z0-9_.-]+")  # dots: a table in a table, which reading takes apart
    lines = [
        f"{key if bare.fullmatch(key) else literal(key)} = {literal(value)}"
        for key, value in entries.items()
    ]
    return ["", head, *lines] if lines or head.startswith("[[") else []


def _read(source: str | Path) -> tuple[str, str, Path, str]:
    """Return a study's text, how to call it in messages, its folder and its name."""
    text = str(source)
    if text in shipped_names():
        shipped = resources.files("fedorbit") / "studies" / "shipped" / f"{text}.toml"
        return shipped.read_text("utf-8"), f"study {text}", Path(), text
    path = Path(source)
    if path.is_dir():
        path /= STUDY
    if not path.is_file():
        raise ConfigError(
            f"{text!r} is neither a shipped study, a file, nor the folder of a study"
            f"{nearest(text, shipped_names())}; shipped are {', '.join(shipped_names())}"
        )
    try:
        return read_text(path), str(path), path.parent, path.stem
    except (OSError, DocumentError) as error:
        raise ConfigError(f"cannot read study {path}: {error}") from None


def _parse(text: str, where: str) -> StudyFile:
    try:
        return StudyFile.model_validate(parse_toml(text))
    except ValidationError as error:
        sentences = explain(error, StudyFile)
        raise ConfigError("\n".join(f"{where}: {sentence}" for sentence in sentences)) from None
    except DocumentError as error:
        raise ConfigError(f"{where} is not valid TOML: {error}") from None


def _anchored(base: str, folder: Path, where: str) -> str:
    """Read a base file as relative to the study's; absolute, since the study will be copied."""
    if base in preset_names():
        return base
    path = (folder / base).resolve()
    if not path.is_file():
        raise ConfigError(
            f"{where}: base must be a preset or a file beside the study, got {base!r}; presets are "
            f"{', '.join(preset_names())}"
        )
    return str(path)


def _quick(file: StudyFile) -> StudyFile:
    settings = {**QUICK_SETTINGS, **flat_settings(file.quick.settings, number_lists=False)}
    overrides = [f"{key}={literal(value)}" for key, value in settings.items()]
    axes = _replaced_axes(file, {**QUICK_AXES, **file.quick.axes})
    return file.model_copy(
        update={**axes, "overrides": (*file.overrides, *overrides), "is_quick": True}
    )


def _overridden(
    file: StudyFile, overrides: Sequence[str], seeds: Sequence[int] | None
) -> StudyFile:
    """Apply overrides: those of axes select among values or replace them, others are kept."""
    names = {key for axes in (file.common, *file.grid) for key in axes}
    axes: dict[str, Any] = {}
    others = []
    for override in overrides:
        key, equals, value = override.partition("=")
        key = key.strip()
        if equals and (key in (SEED, "variant") or key in names or _is_short(key)):
            axes[axis_key(key)] = _values(value)
        else:
            others.append(override)
    if axes:
        # Through the schema again, which checks what an axis may hold.
        checked = _parse("\n".join(["title = ''", *_table_lines("[common]", axes)]), "overrides")
        file = file.model_copy(update=_selected_axes(file, checked.common))
    if seeds is not None:
        file = file.model_copy(update=_replaced_axes(file, {SEED: list(seeds)}))
    return file.model_copy(update={"overrides": (*file.overrides, *others)})


def _is_short(key: str) -> bool:
    try:
        return axis_key(key) != key
    except ValueError:
        return False


def _values(text: str) -> Any:
    value = parse_value(text)
    return value if isinstance(value, list) else [value]


def _selected_axes(file: StudyFile, axes: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return common axes and grids with chosen values on some axes.

    Values that some grid has are kept there, and a grid that has none of them is left out:
    `method = ["ditto"]` drops a grid of FedAvg and does not make it one of Ditto. Values that no
    grid has are added to the kept ones, or replace all values if no grid has any. Grids without
    the axis stay.
    """
    inner = [key for key in axes if any(key in grid for grid in file.grid)]
    # What a grid inherits counts as its own.
    inherited = {key: file.common[key] for key in inner if key in file.common}
    whole = tuple({**inherited, **grid} for grid in file.grid)
    grids = whole
    for key in inner:
        given = axes[key]
        known = [value for grid in whole for value in grid.get(key, ())]
        new = [value for value in given if value not in known]
        if new == given:
            grids = tuple({**grid, key: given} if key in grid else grid for grid in grids)
        else:
            own = [[value for value in grid.get(key, ()) if value in given] for grid in grids]
            grids = tuple(
                {**grid, key: [*mine, *new]} if key in grid else grid
                for grid, mine in zip(grids, own, strict=True)
                if mine or key not in grid
            )
    if not all(any(key in grid for grid in grids) for key in inner):
        asked = " and ".join(f"{key} in {literal(values)}" for key, values in axes.items())
        raise ConfigError(f"no run of the study has {asked}; see `fedorbit study show`")
    common = {key: values for key, values in file.common.items() if key not in inherited}
    return {
        "common": {**common, **{k: v for k, v in axes.items() if k not in inner}},
        "grid": grids,
    }


def _replaced_axes(file: StudyFile, axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the grids with other values on some axes.

    An axis that only some grids have is replaced there; one that none has is common to all. Seed
    and dataset, which every run has, are replaced everywhere.
    """
    inner = {key for grid in file.grid for key in grid} - {*file.common, SEED, DATASET}
    return {
        "common": {**file.common, **{k: v for k, v in axes.items() if k not in inner}},
        "grid": tuple(
            {key: axes.get(key, values) for key, values in grid.items()} for grid in file.grid
        ),
    }
