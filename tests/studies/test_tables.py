"""Tables: means, deviations and marks worked out by hand from summaries written by hand."""

import csv
import io
import json
from pathlib import Path

import pytest

from fedorbit.errors import ConfigError, RunError
from fedorbit.simulation import runs
from fedorbit.studies import Study, as_csv, as_json, latex, load_study, markdown, table, write_study
from tests.studies import small

GRIDS = """
[common]
method = ["fedavg", "ditto", "centralised"]
partition = ["dirichlet", "pathological"]
seed = [0, 1, 2]
[published.synthetic.dirichlet]
fedavg = [68.7, 28.4]
"""

# Accuracies and spreads of seeds 0, 1, 2.
RESULTS = {
    ("dirichlet", "fedavg"): [(60.0, 20.0), (64.0, 22.0), (68.0, 27.0)],
    ("dirichlet", "ditto"): [(64.0, 30.0), (64.02, 30.0), (64.04, 30.0)],
    ("dirichlet", "centralised"): [(90.0, 1.0), (90.0, 1.0), (90.0, 1.0)],
    ("pathological", "fedavg"): [(20.0, 80.0), (21.0, 79.0), (22.0, 78.0)],
    ("pathological", "ditto"): [(95.0, 9.0), (96.0, 9.0)],
    ("pathological", "centralised"): [],
}


def fill(study: Study, out: Path) -> None:
    for cell in study.runs:
        results = RESULTS[cell.config.partition.scheme, cell.method]
        if cell.config.seed < len(results):
            accuracy, spread = results[cell.config.seed]
            folder = out / cell.slug / cell.method
            folder.mkdir(parents=True)
            summary = {"accuracy": accuracy, "spread": spread, "rounds": 4, "seconds": 1.0}
            (folder / "summary.json").write_text(json.dumps(summary))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    study = load_study(small.write_study(tmp_path, GRIDS))
    fill(study, tmp_path / "out")
    return study


def rows_of(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]


def test_numbers_by_hand(study: Study, tmp_path: Path) -> None:
    text = markdown(table(study, tmp_path / "out"))
    # fedavg, Dirichlet: (60 + 64 + 68) / 3 = 64, deviations -4, 0, 4: sqrt(32 / 2) = 4.0.
    # Spread: (20 + 22 + 27) / 3 = 23, deviations -3, -1, 4: sqrt(26 / 2) = 3.6.
    # Ditto's 64.02 prints as 64.0, so both are best. 64.0 - 68.7 = -4.7, 23.0 - 28.4 = -5.4.
    # Pathological: Ditto lacks a seed and Centralised does not compete: nobody to compare with.
    assert rows_of(text) == [
        ["", "dirichlet accuracy", "dirichlet spread", "pathological accuracy", "pathological spread"],
        ["*One global model*", "", "", "", ""],
        ["FedAvg", "**64.0 ± 4.0**", "**23.0 ± 3.6**", "21.0 ± 1.0", "79.0 ± 1.0"],
        ["published (ours − it)", "68.7 (−4.7)", "28.4 (−5.4)", "", ""],
        ["*Personalised models*", "", "", "", ""],
        ["Ditto", "**64.0 ± 0.0**", "30.0 ± 0.0", "2/3 runs", "2/3 runs"],
        ["*References*", "", "", "", ""],
        ["Centralised", "90.0 ± 0.0", "1.0 ± 0.0", "0/3 runs", "0/3 runs"],
    ]  # fmt: skip
    assert "n = 3 seeds, mean ± sample standard deviation" in text
    assert "[synthetic]" in text


def test_one_seed_has_no_deviation(tmp_path: Path, study: Study) -> None:
    single = load_study(tmp_path / "tiny.toml", seeds=[1])
    text = markdown(table(single, tmp_path / "out"))
    rows = rows_of(text)
    assert rows[2] == ["FedAvg", "**64.0**", "**22.0**", "21.0", "79.0"]
    assert rows[5] == ["Ditto", "**64.0**", "30.0", "**96.0**", "**9.0**"]
    assert "n = 1 seed;" in text and "±" not in text


def test_no_comparison_where_the_settings_are_others(tmp_path: Path, study: Study) -> None:
    path = tmp_path / "tiny.toml"
    changed = load_study(path, overrides=["training.epochs=2"])
    text = markdown(table(changed, tmp_path / "out"))
    assert "published" not in text and "With training.epochs = 2." in text
    same = load_study(path, overrides=["engine.workers=1", "tracking.tensorboard=true"])
    text = markdown(table(same, tmp_path / "out"))
    assert "68.7" in text and "With" not in text
    quick = load_study(path, quick=True)
    fill(quick, tmp_path / "quick")
    text = markdown(table(quick, tmp_path / "quick"))
    assert "QUICK" in text and "68.7" not in text
    for form in (latex, as_csv):
        assert "quick" in form(table(quick, tmp_path / "quick")).lower()


def test_latex(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        r"""
[common]
method = ["fedavg"]
partition = ["dirichlet"]
seed = [0, 1, 2]
[[grid]]
variant = ["a", "b"]
[[variants]]
name = "a"
label = 'rate_x at 50 % & \more {#1} $~^'
[[variants]]
name = "b"
settings = { training.epochs = 2 }
""",
    )
    study = load_study(path)
    out = tmp_path / "out"
    fill(study, out)
    text = latex(table(study, out))
    label = (
        r"rate\_x at 50 \% \& \textbackslash{}more \{\#1\} \$\textasciitilde{}\textasciicircum{}"
    )
    # One column for all: its values stand in the caption.
    assert rf"    {label} & \textbf{{64.0 $\pm$ 4.0}} & \textbf{{23.0 $\pm$ 3.6}} \\" in text
    assert r"\begin{tabular}{lrr}" in text
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert rule in text
    assert "[synthetic, dirichlet]" in text
    assert text.isascii()


def test_latex_groups_columns(study: Study, tmp_path: Path) -> None:
    text = latex(table(study, tmp_path / "out"))
    assert r"\multicolumn{2}{c}{dirichlet} & \multicolumn{2}{c}{pathological} \\" in text
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}" in text
    assert r"\quad published (ours $-$ it) & 68.7 ($-$4.7)" in text
    assert text.index("Ditto") < text.rindex(r"\midrule") < text.index("Centralised &")


def test_csv_and_json_have_all_digits(study: Study, tmp_path: Path) -> None:
    made = table(study, tmp_path / "out")
    rows = list(csv.DictReader(io.StringIO(as_csv(made))))
    assert len(rows) == 3 * 2 * 2
    first = rows[0]
    assert first["row"] == "FedAvg" and first["column"] == "dirichlet"
    assert float(first["mean"]) == 64.0 and float(first["std"]) == 4.0
    assert float(first["difference"]) == pytest.approx(-4.7)
    incomplete = next(r for r in rows if (r["row"], r["column"]) == ("Ditto", "pathological"))
    assert (incomplete["n"], incomplete["expected"], incomplete["mean"]) == ("2", "3", "")
    numbers = as_json(made)["numbers"]
    spread = next(n for n in numbers if n["metric"] == "spread")
    assert spread["std"] == pytest.approx(13**0.5)
    assert spread["values"] == [20.0, 22.0, 27.0]


def test_rows_by_axes(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        '[common]\nmethod = ["fedorbit"]\nlinks = ["ideal", "causal"]\n'
        "[[grid]]\nmethods.fedorbit.kappa = [0.0, 0.5]\n[[grid]]\nmethods.fedorbit.rho = [0.95]\n"
        '[table]\ncolumns = ["links"]',
    )
    made = table(load_study(path), tmp_path / "out")
    assert [row.label for row in made.rows] == ["kappa = 0.0", "kappa = 0.5", "rho = 0.95"]
    assert made.columns == (("ideal",), ("causal",))


def test_what_is_no_column_makes_rows(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        '[common]\nmethod = ["fedavg"]\npartition = ["dirichlet", "pathological"]\n'
        '[table]\ncolumns = ["dataset"]',
    )
    study = load_study(path)
    fill(study, tmp_path / "out")
    made = table(study, tmp_path / "out")
    assert [row.label for row in made.rows] == ["dirichlet", "pathological"]
    assert [[e.values for e in row.entries[0]] for row in made.rows] == [
        [(60.0,), (20.0,)], [(20.0,), (80.0,)]
    ]  # fmt: skip


SPACE = """
[common]
method = ["fedsat", "fedavg"]
partition = ["dirichlet", "pathological"]
seed = [0, 1]
variant = ["low", "high"]
[[variants]]
name = "low"
label = "550 km"
[[variants]]
name = "high"
settings = { constellation.altitude_km = 1200.0 }
[table]
columns = ["dataset"]
groups = ["variant", "partition"]
metrics = ["accuracy", "hours_to_80", "to_ground", "staleness", "idle_visits"]
"""


def fill_space(study: Study, out: Path) -> None:
    """FedSat has 50 % and is better in the first group, FedAvg has 40 %; in others the reverse."""
    for cell in study.runs:
        seed, is_first = cell.config.seed, (cell.value("variant"), cell.value("partition.scheme"))
        is_sat = cell.method == "fedsat"
        accuracy = 50.0 if is_sat is (is_first == ("low", "dirichlet")) else 40.0
        folder = out / cell.slug / cell.method
        folder.mkdir(parents=True)
        # Nothing for an hour and a half (seed 0) or two, then all at once; hours are not recorded.
        found = [
            {
                "round": 6 * n + 5, "visible": [], "accuracy": reached, "spread": 1.0,
                "orbit_accuracy": [reached], "orbit_loss": [1.0], "samples_trained": 10,
                "to_ground_bytes": 1000, "from_ground_bytes": 0, "isl_bytes": 0,
                "unlinked_bytes": 0, "epochs": [0], "seconds": 1.0,
            }
            for n, reached in enumerate([0.0] * (2 + seed) + [accuracy] * 10)
        ]  # fmt: skip
        (folder / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in found))
        noted = {"staleness": {"count": 2, "mean": 3.0 + 2 * seed, "max": 9.0, "last": 1.0}}
        if seed == 0:
            noted["idle_visit"] = {"count": 4, "mean": 1.0, "max": 1.0, "last": 1.0}
        summary = {
            "accuracy": accuracy, "spread": 1.0, "rounds": found[-1]["round"] + 1, "seconds": 1.0,
            "to_ground_bytes": 1500, **({"noted": noted} if is_sat else {}),
        }  # fmt: skip
        (folder / "summary.json").write_text(json.dumps(summary))


def test_metrics_and_groups_by_hand(tmp_path: Path) -> None:
    study, out = load_study(small.write_study(tmp_path, SPACE)), tmp_path / "out"
    fill_space(study, out)
    made = table(study, out)
    text = markdown(made)
    # Hours: 3 x 0.5 and 4 x 0.5, mean 1.75, deviation 0.25 sqrt(2) = 0.4. Staleness 3 and 5.
    # Idle visits: 4 and none, deviation 2 sqrt(2) = 2.8. FedAvg notes neither.
    cost, sat = ["1.8 ± 0.4", "1.50 kB ± 0 B"], ["4.0 ± 1.4", "2 ± 2.83"]
    assert rows_of(text)[:11] == [
        ["", "accuracy", "hours to 80 % of final", "to ground", "staleness", "idle visits"],
        ["*550 km, dirichlet*", "", "", "", "", ""],
        ["*One global model*", "", "", "", "", ""],
        ["FedAvg", "40.0 ± 0.0", *cost, "–", "–"],
        ["*Systems made for space*", "", "", "", "", ""],
        ["FedSat", "**50.0 ± 0.0**", *cost, *sat],
        ["*550 km, pathological*", "", "", "", "", ""],
        ["*One global model*", "", "", "", "", ""],
        ["FedAvg", "**50.0 ± 0.0**", *cost, "–", "–"],
        ["*Systems made for space*", "", "", "", "", ""],
        ["FedSat", "40.0 ± 0.0", *cost, *sat],
    ]
    assert [row[0] for row in rows_of(text)[11:]] == [
        "*high, dirichlet*", "*One global model*", "FedAvg", "*Systems made for space*", "FedSat",
        "*high, pathological*", "*One global model*", "FedAvg", "*Systems made for space*", "FedSat",
    ]  # fmt: skip
    assert "Accuracy in percent, means of the last 10 evaluated rounds" in made.note
    assert "best of each part in bold" in made.note and "Staleness: versions" in made.note
    heads = r"& accuracy & hours to 80 \% of final & to ground & staleness & idle visits"
    assert heads in latex(made)
    numbers = {(n["row"], n["metric"]): n for n in as_json(made)["numbers"]}
    assert len(numbers) == 2 * 4 * 5
    idle = numbers["FedSat, 550 km, dirichlet", "idle_visits"]
    assert (idle["values"], idle["mean"], idle["n"], idle["best"]) == ([4, 0.0], 2.0, 2, False)
    assert numbers["FedAvg, high, pathological", "staleness"]["mean"] is None
    rows = list(csv.DictReader(io.StringIO(as_csv(made))))
    assert [r["mean"] for r in rows if r["metric"] == "hours_to_80"] == ["1.75"] * 8


def test_a_run_that_is_not_done_is_counted_in_every_metric(tmp_path: Path) -> None:
    study, out = load_study(small.write_study(tmp_path, SPACE)), tmp_path / "out"
    fill_space(study, out)
    cell = next(c for c in study.cells if c.method == "fedavg" and c.config.seed == 1)
    (out / cell.slug / "fedavg" / "summary.json").unlink()
    row = next(row for row in rows_of(markdown(table(study, out))) if row[0] == "FedAvg")
    assert row == ["FedAvg", "1/2 runs", "1/2 runs", "1/2 runs", "0/2 runs", "0/2 runs"]


def test_a_study_folder_keeps_metrics_and_groups(tmp_path: Path) -> None:
    study = load_study(small.write_study(tmp_path, SPACE))
    write_study(study, tmp_path / "out")
    assert load_study(tmp_path / "out").file.table == study.file.table
    plain = load_study(small.write_study(tmp_path, GRIDS, "plain"))
    write_study(plain, tmp_path / "plain")
    text = (tmp_path / "plain" / "study.toml").read_text()
    assert "metrics" not in text and "groups" not in text


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('metrics = ["acuracy"]', r"unknown metric 'acuracy' \(did you mean 'accuracy'\?\)"),
        ('metrics = ["isl", "isl"]', "named twice"),
        ("metrics = []", "metrics"),
        ('groups = ["partition"]', "in columns or in groups"),
        ('groups = ["orbit"]', "unknown axis 'orbit'"),
    ],
)
def test_a_table_that_cannot_be_is_refused(tmp_path: Path, line: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_study(small.write_study(tmp_path, f"{GRIDS}\n[table]\n{line}\n"))


def test_results_of_another_configuration_are_refused(study: Study, tmp_path: Path) -> None:
    cell = study.runs[0]
    other = cell.config.model_copy(update={"seed": 9})
    (tmp_path / "out" / cell.slug / runs.CONFIG).write_text(runs.dumps(other))
    with pytest.raises(RunError, match="differs in seed"):
        table(study, tmp_path / "out")
