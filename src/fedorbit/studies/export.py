"""Copies of finished runs: for others to read, without checkpoints, or to save doing them again."""

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from fedorbit.errors import RunError
from fedorbit.files import replacing
from fedorbit.results.reading import finished
from fedorbit.simulation.manifest import (
    CONFIG,
    MANIFEST,
    WORLD,
    WORLDS,
    bound_file,
    read_manifest,
    refuse_links,
    require_files,
    share_file,
    stored_config,
)
from fedorbit.simulation.records import RECORDS, SUMMARY, method_folder
from fedorbit.simulation.runs import differing_keys, with_backend_of
from fedorbit.simulation.world_file import written_files
from fedorbit.studies.folders import refuse_other_configurations, run_lock, state_of
from fedorbit.studies.formats import as_csv, latex, markdown
from fedorbit.studies.grid import Cell
from fedorbit.studies.study import Study, refuse_other_study, write_study
from fedorbit.studies.tables import table


def export(study: Study, out: Path, to: Path) -> list[str]:
    """Write a study's tables and its finished runs without checkpoints; return the runs' names.

    The copy is a study's folder like any other: tables and reports can be made from it. World
    files, which runs with the same data and contacts have in common, are in it once.
    """
    if to.exists() and out.resolve() == to.resolve():
        raise RunError(f"{to} is the study itself; choose another folder for the copy")
    for folder in (out, to):
        refuse_links(folder)
    refuse_other_study(study, to)
    refuse_other_configurations(out, study.runs)
    refuse_other_configurations(to, study.runs)
    done = [cell for cell in study.runs if state_of(out, cell).state == "done"]
    if not done:
        raise RunError(f"{out} has no finished run; see fedorbit study status")
    write_study(study, to)
    for cell in done:
        copy_run(out / cell.slug, to / cell.slug, cell.method)
        if (manifest := read_manifest(to / cell.slug)) is not None:
            require_files(to / cell.slug, manifest)
            for name in written_files(manifest):
                share_file(to / cell.slug, name, manifest)
    _remove_unused_worlds(to)
    write_tables(study, out, to)
    return [cell.slug for cell in done]


def _remove_unused_worlds(to: Path) -> None:
    """Remove the world files of an earlier export that no run has any more."""
    manifests = (read_manifest(path.parent) for path in to.glob(f"*/{MANIFEST}"))
    used = {sha256 for manifest in manifests if manifest for sha256 in manifest.files.values()}
    for path in (to / WORLDS).glob("*"):
        if path.name not in used:
            path.unlink()


def write_tables(study: Study, out: Path, to: Path) -> list[Path]:
    """Write a study's table as Markdown, LaTeX and CSV; return the files."""
    made = table(study, out)
    texts = {"table.md": markdown(made), "table.tex": latex(made), "table.csv": as_csv(made)}
    for name, text in texts.items():
        with replacing(to / name) as partial:
            partial.write_text(text, encoding="utf-8")
    return [to / name for name in texts]


def take_over(study: Study, out: Path, sources: Sequence[Path]) -> list[str]:
    """Copy runs that other folders have finished with the same settings; return their names."""
    refuse_links(out)
    refuse_other_study(study, out)
    sources_of_runs = [folder for source in sources for folder in _runs_below(source)]
    taken = []
    for cell in study.runs:
        if (out / cell.slug / CONFIG).exists():
            continue
        found = next((folder for folder in sources_of_runs if _answers(folder, cell)), None)
        if found is None:
            continue
        with run_lock(out, cell.slug) as is_ours:
            if is_ours and not (out / cell.slug / CONFIG).exists():
                copy_run(found, out / cell.slug, cell.method)
                taken.append(cell.slug)
    return taken


def copy_run(source: Path, target: Path, method: str) -> None:
    """Copy the results of a finished run; a new folder appears complete or not at all."""
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        for name, path in _files(source, method).items():
            with replacing((target if target.exists() else partial) / name) as written:
                shutil.copyfile(path, written)
        if partial.exists():
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _files(source: Path, method: str) -> dict[str, Path]:
    """Files of a finished run without checkpoints, by name; its summary last."""
    refuse_links(source)
    manifest, folder = read_manifest(source), method_folder(source, method).name
    names = [CONFIG, *([*manifest.files, MANIFEST] if manifest else [WORLD])]
    names += [f"{folder}/{name}" for name in (RECORDS, SUMMARY)]
    paths = {name: bound_file(source, name, manifest) for name in names}
    return {name: path for name, path in paths.items() if path.exists()}


def _runs_below(source: Path) -> list[Path]:
    found = sorted(path.parent for path in source.rglob(CONFIG))
    if not found:
        raise RunError(f"{source} holds no run to take over: there is no {CONFIG} in it or below")
    return found


def _answers(folder: Path, cell: Cell) -> bool:
    """Return whether a folder holds a cell's run, finished and with the same settings."""
    if not (method_folder(folder, cell.method) / SUMMARY).exists():
        return False
    refuse_links(folder)
    stored = stored_config(folder)
    if differing_keys(stored, with_backend_of(stored, cell.config)):
        return False
    return finished(folder, cell.method, with_records=False) is not None
