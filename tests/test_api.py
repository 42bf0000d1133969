"""The Python interface: what `import fedorbit` has, and results as tables, figures and models."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from examples.export_and_predict import main
from matplotlib.figure import Figure

import fedorbit as fo
from fedorbit.errors import RunError
from tests.simulation.test_runs import small


def test_editors_are_shown_the_names_that_are_there() -> None:
    """The imports for type checkers and those at run time are the same, and complete."""
    tree = ast.parse(Path(fo.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    shown = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    assert shown == fo._HOMES
    assert shown.keys() | {"__version__"} == set(fo.__all__) <= set(dir(fo))
    for name in fo.__all__:
        assert getattr(fo, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = fo.nothing


def test_the_package_alone_imports_nothing_slow() -> None:
    script = (
        "import sys, fedorbit; dir(fedorbit); fedorbit.load_config; "
        "print([m for m in ('torch', 'matplotlib', 'pandas', 'wandb') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_results_as_tables_figures_and_models(tmp_path: Path) -> None:
    result = fo.run(small(run={"rounds": 3}), tmp_path / "run")
    again = fo.load_run(tmp_path / "run")
    assert [run.summary for run in again.runs] == [run.summary for run in result.runs]
    assert again["fedorbit"].records == result.runs[1].records
    with pytest.raises(KeyError, match="methods of this run are fedavg, fedorbit"):
        result["ditto"]

    pandas = pytest.importorskip("pandas", reason="needs fedorbit[pandas]")
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.shape[0] == 6 and "confusion" not in frame
    last = frame[(frame["method"] == "fedorbit") & (frame["round"] == 2)]
    assert last["accuracy"].item() == result["fedorbit"].records[-1]["accuracy"]

    figure = result.plot_accuracy()
    assert isinstance(figure, Figure) and figure.axes[0].get_ylim() != (0.0, 100.0)
    assert result.plot_accuracy(full_scale=True).axes[0].get_ylim() == (0.0, 100.0)
    of_orbit = result.plot_confusion("fedorbit", 1).axes[0]
    assert of_orbit.get_title("left").startswith("FedOrbit, orbit 1, balanced accuracy")
    assert "all orbits" in result.plot_confusion().axes[0].get_title("left")
    with pytest.raises(RunError, match="orbit must be from 0 to 2, got 3"):
        result.plot_confusion("fedorbit", 3)
    assert result.model(1, method="fedorbit").card.serves == "orbit 1"


def test_only_finished_runs_have_results(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run: it has no config\.toml"):
        fo.load_run(tmp_path)
    fo.run(small(run={"rounds": 1, "method": "local"}), tmp_path / "run")
    (tmp_path / "run" / "local" / "summary.json").unlink()
    with pytest.raises(RunError, match="has no finished method"):
        fo.load_run(tmp_path / "run")


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(tmp_path / "example")
    assert {p.name for p in (tmp_path / "example").iterdir()} == {
        "run", "accuracy.png", "confusion.png", "orbit-2.safetensors",
    }  # fmt: skip
    right = re.search(r"([\d.]+)% of all images", capsys.readouterr().out)
    assert right is not None and float(right[1]) > 80  # of three classes
