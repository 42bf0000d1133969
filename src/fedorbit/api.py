"""The Python interface: runs with tables, figures and models. `import fedorbit as fo` has it all.

Everything here is built on `simulation` and `report`, which do not depend on each other.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedorbit.config import Config, load_config
from fedorbit.errors import FedOrbitError, RunError
from fedorbit.extras import install_extra
from fedorbit.progress import Progress
from fedorbit.simulation import runs
from fedorbit.simulation.classifier import Classifier
from fedorbit.simulation.loop import RunProgress
from fedorbit.simulation.manifest import CONFIG, read_stored, refuse_links
from fedorbit.simulation.model_files import load_model
from fedorbit.simulation.records import method_folder, read_setting, read_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


class RunResult(runs.RunResult):
    """A finished run, with its results as tables, figures and models.

    `folder` is the run's folder. `runs` has a `MethodRun` for each method, and `result["fedavg"]`
    is the one of that name.
    """

    def __getitem__(self, method: str) -> runs.MethodRun:
        """Return one of the methods by its name."""
        found = {run.method: run for run in self.runs}
        if method not in found:
            raise KeyError(f"{method!r}; methods of this run are {', '.join(found)}")
        return found[method]

    def to_pandas(self) -> "DataFrame":
        """Return `table()` as a data frame: one row per method and evaluated round."""
        try:
            import pandas
        except ImportError as error:
            raise FedOrbitError(
                f"pandas cannot be imported ({error}); {install_extra('pandas')}"
            ) from None
        return pandas.DataFrame(self.table())

    def model(
        self, orbit: int | None = None, *, satellite: int | None = None, method: str | None = None
    ) -> Classifier:
        """Return the model in use in an orbit or on a satellite; see `load_model`."""
        return load_model(self.folder, orbit, satellite=satellite, method=method)

    def plot_accuracy(self, *, full_scale: bool = False) -> "Figure":
        """Draw accuracy and spread per round and method; `full_scale` from 0 to 100 %."""
        from fedorbit.report.run_figures import accuracy_figure

        return accuracy_figure({run.method: run.records for run in self.runs}, full_scale)

    def plot_confusion(self, method: str | None = None, orbit: int | None = None) -> "Figure":
        """Draw the last confusion matrix of a method: of an orbit, or of all orbits together."""
        from fedorbit.report.confusion_figure import confusion_figure
        from fedorbit.report.confusions import summed

        chosen = self[method] if method is not None else self.runs[-1]
        matrices = chosen.records[-1].get("confusion", [])
        if orbit is not None:
            if not 0 <= orbit < len(matrices):
                raise RunError(f"orbit must be from 0 to {len(matrices) - 1}, got {orbit}")
            matrices = matrices[orbit : orbit + 1]
        counts = summed(matrices)
        if counts is None:
            raise RunError(f"{chosen.folder} has no confusion matrix of that; run it again")
        setting = read_setting(self.folder)
        where = "all orbits" if orbit is None else f"orbit {orbit}"
        names = setting["classes"] if setting else [str(c) for c in range(len(counts))]
        return confusion_figure({f"{chosen.method}, {where}": counts}, names)


def run(
    config: Config | str | Path,
    out: Path | str | None = None,
    *,
    progress: RunProgress | None = None,
    preparing: Progress | None = None,
) -> RunResult:
    """Run every method of a configuration, preset or TOML file in a new folder.

    The folder is `out`, by default `runs/1`, `runs/2` …
    """
    loaded = config if isinstance(config, Config) else load_config(config)
    done = runs.run(loaded, out, progress=progress, preparing=preparing)
    return RunResult(done.folder, done.runs)


def resume(
    folder: Path | str,
    config: Config | None = None,
    *,
    overrides: Sequence[str] = (),
    progress: RunProgress | None = None,
    preparing: Progress | None = None,
) -> RunResult:
    """Continue the run in a folder to the same result.

    `overrides` or `config` may change settings of execution, such as threads. Other changes are
    refused.
    """
    done = runs.resume(folder, config, overrides=overrides, progress=progress, preparing=preparing)
    return RunResult(done.folder, done.runs)


def load_run(folder: Path | str) -> RunResult:
    """Return the finished methods of the run in a folder, without computing anything."""
    folder = Path(folder)
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder} holds no run: it has no {CONFIG}")
    refuse_links(folder)
    methods = read_stored(folder).values["run"]["method"]
    folders = {name: method_folder(folder, name) for name in methods}
    found = [
        runs.MethodRun(name, target, summary)
        for name, target in folders.items()
        if (summary := read_summary(target)) is not None
    ]
    if not found:
        raise RunError(f"{folder} has no finished method; go on with `fedorbit run --resume`")
    return RunResult(folder, tuple(found))
