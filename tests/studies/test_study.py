"""Study files: grids worked out by hand, errors that name the key, and the shipped ones."""

import math
import tomllib
from pathlib import Path

import pytest

from fedorbit.config import load_config
from fedorbit.errors import ConfigError, FedOrbitError
from fedorbit.methods import make_method
from fedorbit.simulation.records import STUDY
from fedorbit.studies import load_study, shipped_names, write_study
from tests.studies import small

VARIANTS = """
[[variants]]
name = "full"
[[variants]]
name = "no-catch-up"
label = "without catch-up"
settings = { methods.fedorbit.catch_up = 0 }
"""


def test_a_grid_by_hand(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        """
[common]
partition = ["dirichlet", "pathological"]
seed = [0, 7]
[[grid]]
method = ["fedavg"]
[[grid]]
method = ["fedorbit"]
variant = ["full", "no-catch-up"]
"""
        + VARIANTS,
    )
    study = load_study(path)
    assert study.name == "tiny" and not study.quick
    assert [cell.slug for cell in study.cells] == [
        "synthetic_dirichlet_fedavg_seed0",
        "synthetic_dirichlet_fedavg_seed7",
        "synthetic_pathological_fedavg_seed0",
        "synthetic_pathological_fedavg_seed7",
        "synthetic_dirichlet_fedorbit_full_seed0",
        "synthetic_dirichlet_fedorbit_no-catch-up_seed0",
        "synthetic_dirichlet_fedorbit_full_seed7",
        "synthetic_dirichlet_fedorbit_no-catch-up_seed7",
        "synthetic_pathological_fedorbit_full_seed0",
        "synthetic_pathological_fedorbit_no-catch-up_seed0",
        "synthetic_pathological_fedorbit_full_seed7",
        "synthetic_pathological_fedorbit_no-catch-up_seed7",
    ]
    # Seed by seed, so that a whole table is there early.
    assert [cell.config.seed for cell in study.runs] == [0] * 6 + [7] * 6
    small_settings = [
        "constellation.planes=3",
        "constellation.satellites_per_plane=2",
        "data.synthetic={classes = 4, samples = 120, size = 16}",
        "training.epochs=1",
        "run.rounds=4",
        "run.links=ideal",
        "network.isl=assumed",
        "engine.checkpoint_every=3",
    ]
    last = study.cells[-1]
    assert last.config == load_config(
        "quickstart",
        [
            *small_settings,
            "partition.scheme=pathological",
            "seed=7",
            "run.method=['fedorbit']",
            "methods.fedorbit.catch_up=0.0",
        ],
    )


def test_cells_that_compute_the_same_share_a_run(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        """
[common]
method = ["fedorbit"]
[[grid]]
methods.fedorbit.kappa = [0.0, 0.5]
[[grid]]
methods.fedorbit.rho = [0.95, 1.0]
[[grid]]
training.epochs = [1, 2]
[[grid]]
variant = ["kappa-off"]
[[variants]]
name = "kappa-off"
settings = { methods.fedorbit.kappa = 0.0, methods.ditto.lambda = 0.3 }
""",
    )
    study = load_study(path)
    begin = "synthetic_dirichlet_fedorbit"
    assert [cell.slug for cell in study.cells] == [
        f"{begin}_kappa-0.0_seed0",
        f"{begin}_seed0",
        f"{begin}_seed0",
        f"{begin}_rho-1.0_seed0",
        f"{begin}_seed0",
        f"{begin}_epochs-2_seed0",
        f"{begin}_kappa-0.0_seed0",
    ]
    assert len(study.runs) == 4


def test_different_runs_never_share_a_folder(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        '[common]\nmethod = ["fedavg"]\n[[grid]]\ntraining.epochs = [2]\n'
        '[[grid]]\nvariant = ["epochs-2"]\n'
        '[[variants]]\nname = "epochs-2"\nsettings = { training.epochs = 3 }',
    )
    first, second = (cell.slug for cell in load_study(path).cells)
    assert first != second
    assert first.startswith("synthetic_dirichlet_fedavg_epochs-2_seed0_")
    assert [cell.slug for cell in load_study(path).cells] == [first, second]


def test_overrides_replace_an_axis_or_change_every_cell(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path, '[common]\nmethod = ["fedavg", "ditto"]\nseed = [0, 1]\ntraining.epochs = [1, 2]'
    )
    assert len(load_study(path).runs) == 8
    study = load_study(
        path, seeds=[5], overrides=["method=ditto", "training.epochs=[3]", "run.rounds=2"]
    )
    [cell] = study.cells
    config = cell.config
    assert (config.run.method, config.seed, config.training.epochs) == (("ditto",), 5, 3)
    assert config.run.rounds == 2


def test_overrides_select_among_the_values_of_grids(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        '[[grid]]\nmethod = ["fedorbit"]\n'
        '[[grid]]\nmethod = ["fedavg", "fedprox"]\ntraining.epochs = [1, 2]\n'
        '[[grid]]\nmethod = ["ditto"]\nmethods.ditto.effort = ["base", "always"]',
    )

    def chosen(*overrides: str) -> list[tuple[str, int, str | None]]:
        cells = load_study(path, overrides=overrides).cells
        return [
            (c.method, c.config.training.epochs, c.config.methods.get("ditto", {}).get("effort"))
            for c in cells
        ]

    assert chosen('method=["ditto"]') == [("ditto", 1, None), ("ditto", 1, "always")]
    assert chosen('method=["ditto", "fedorbit"]', 'methods.ditto.effort=["always"]') == [
        ("fedorbit", 1, None),
        ("ditto", 1, "always"),
    ]
    assert chosen('method=["fedprox"]', "training.epochs=[2]") == [("fedprox", 2, None)]
    # What no grid has joins those who are chosen, or takes the place of all.
    assert chosen('method=["fedorbit", "apfl"]') == [("fedorbit", 1, None), ("apfl", 1, None)]
    assert {method for method, *_ in chosen("method=apfl")} == {"apfl"}
    assert chosen('method=["fedprox"]', "training.epochs=[4]") == [("fedprox", 4, None)]
    # An axis of grids that were left out has nothing to select from.
    with pytest.raises(ConfigError, match=r'has run\.method in \["ditto"\] and training\.epochs'):
        load_study(path, overrides=["method=ditto", "training.epochs=2"])
    # Other seeds are other seeds, whatever grids have; a value keeps the grid's spelling.
    path = small.write_study(
        tmp_path,
        '[[grid]]\nmethod = ["fedavg"]\nseed = [0]\n[[grid]]\nmethod = ["ditto"]\nseed = [1]\n'
        '[[grid]]\nmethod = ["fedorbit"]\nmethods.fedorbit.kappa = [0.0, 1.0]\nseed = [0]',
    )
    study = load_study(path, seeds=[1, 2])
    assert [(c.method, c.config.seed) for c in study.cells][:4] == [
        ("fedavg", 1), ("fedavg", 2), ("ditto", 1), ("ditto", 2)
    ]  # fmt: skip
    whole, part = load_study(path), load_study(path, overrides=["methods.fedorbit.kappa=[1]"])
    assert part.cells[-1].slug == whole.cells[-1].slug
    path = small.write_study(
        tmp_path,
        '[[grid]]\nmethod = ["fedavg"]\ntraining.epochs = [1]\n'
        '[[grid]]\nmethod = ["ditto"]\ntraining.epochs = [2]',
    )
    with pytest.raises(
        ConfigError, match=r'has run\.method in \["ditto"\] and training\.epochs in'
    ):
        load_study(path, overrides=["method=ditto", "training.epochs=1"])


def test_what_a_grid_inherits_is_selected_too() -> None:
    study = load_study("constellations", seeds=[0], overrides=["partition=ground-track"])
    assert {cell.config.partition.scheme for cell in study.cells} == {"ground-track"}
    whole = load_study("constellations", seeds=[0]).cells
    dealt = sum(cell.config.partition.scheme == "ground-track" for cell in whole)
    assert 0 < dealt == len(study.cells) < len(whole)


def test_quick_is_small_and_elsewhere(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        '[common]\ndataset = ["eurosat", "so2sat"]\nseed = [0, 1]\nmethod = ["fedavg", "ditto"]\n'
        '[quick.axes]\nmethod = ["ditto"]\n[quick.settings]\nrun.rounds = 3',
    )
    study = load_study(path, quick=True)
    [cell] = study.cells
    assert cell.config.data.name == "synthetic" and cell.config.run.rounds == 3
    assert cell.method == "ditto"
    assert study.default_out == Path("studies/tiny-quick")


def test_seeds_and_quick_reach_every_grid(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        '[common]\nseed = [0, 1, 2]\n[[grid]]\nmethod = ["fedavg"]\n'
        '[[grid]]\nmethod = ["ditto"]\nseed = [0]\ndataset = ["eurosat"]',
    )
    study = load_study(path, seeds=[5])
    assert [(c.method, c.config.seed) for c in study.cells] == [("fedavg", 5), ("ditto", 5)]
    quick = load_study(path, quick=True)
    assert [(c.method, c.config.seed) for c in quick.cells] == [("fedavg", 0), ("ditto", 0)]
    assert {cell.config.data.name for cell in quick.cells} == {"synthetic"}


def test_another_part_of_a_study_keeps_what_is_said_of_runs_that_are_there(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        '[common]\nmethod = ["fedavg"]\nseed = [0, 1]\n'
        "[published.synthetic.dirichlet]\nfedavg = [68.7, 28.4]",
    )
    out = tmp_path / "out"
    first, second = load_study(path, seeds=[0]), load_study(path, seeds=[1])
    write_study(first, out)
    write_study(second, out)
    assert [cell["seed"] for cell in load_study(out).file.cells] == [1]  # seed 0 was never run
    write_study(first, out)
    (out / first.cells[0].slug).mkdir()
    write_study(second, out)
    kept = load_study(out).file.cells
    assert [cell["seed"] for cell in kept] == [1, 0]
    assert kept[1]["published"] == [68.7, 28.4]


def test_the_written_study_loads_to_the_same(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        '[common]\nmethod = ["fedavg", "fedorbit"]\ntraining.epochs = [1, 2]\nseed = [0, 1]\n'
        '[[grid]]\nvariant = ["two"]\n[[variants]]\nname = "two"\n[[variants.settings.stations]]\n'
        'name = "a \\"b\\""\nlatitude_deg = 1.0\nlongitude_deg = 2.0\n'
        "[published.synthetic.dirichlet]\nfedavg = [50.0, 10.0]\n[resources]\ncpus = 3\ngpus = 0.5",
    )
    for quick in (False, True):
        study = load_study(path, quick=quick, overrides=["run.rounds=2"])
        out = tmp_path / f"out-{quick}"
        write_study(study, out)
        again = load_study(out)
        assert again.cells == study.cells
        assert again.file.published == study.file.published
        assert (again.file.resources.cpus, again.file.resources.gpus) == (3, 0.5)
        assert (again.name, again.quick) == (study.name, quick)
        described = tomllib.loads((out / STUDY).read_text())["cells"]
        assert described[0] == {
            "folder": study.cells[0].slug,
            "method": "fedavg",
            "dataset": "synthetic",
            "partition": "dirichlet",
            "links": "ideal",
            "seed": 0,
            "variant": "two",
            "settings": {"training.epochs": 1},
        }


def test_a_base_file_lies_beside_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base.toml").write_text('extends = "quickstart"\n[run]\nrounds = 7\n')
    path = tmp_path / "mine.toml"
    path.write_text('title = "t"\nbase = "base.toml"\n[common]\nmethod = ["fedavg"]')
    monkeypatch.chdir("/")
    assert load_study(path).cells[0].config.run.rounds == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grd = 1", "unknown key 'grd'; did you mean 'grid'?"),
        ("zzz = 1", "unknown key 'zzz'; allowed are title, name, base, settings, common, grid, variants, quick, table, resources, published"),
        ("cell = 1", "unknown key 'cell'; allowed are title"),
        ("[common]\nmetod = ['fedavg']", "unknown axis 'metod' (did you mean 'method'?)"),
        ("[common]\nmethod = 'fedavg'", "axis 'method' must be a list of values, got 'fedavg'"),
        ("[common]\nseed = [0, 0]", "axis 'seed' names a value twice"),
        ("[common]\nstations.x = [{ a = 1 }]", "axis 'stations.x' must hold texts, numbers"),
        ("[common]\nmethod = ['fedavgg']", "no method 'fedavgg' (did you mean 'fedavg'?)"),
        ("[common]\nvariant = ['x']", "there is no variant 'x'; known are none"),
        ("[[variants]]\nname = 'x'\nsettigns = {}", "unknown key 'variants.0.settigns'"),
        ("[common]\ntraining.epoch = [1]", "unknown key 'training.epoch'; did you mean 'training.epochs'?"),
        ("[settings]\nrun.rounds = 500", "run.rounds must be at most schedule.rounds (400), got 500"),
        ("[settings]\nmethods.fedorbit.roh = 1.0", "methods.fedorbit: unknown key 'roh'; did you mean 'rho'?"),
        ("[settings]\nmethods.dito.lambda = 1.0", "no method 'dito' (did you mean 'ditto'?)"),
        ("[common]\nmethods.fedorbit.kappa = [-1.0]", "kappa must be at least 0"),
        ("[resources]\ncpus = 0", "resources.cpus must be at least 1 and at most 1024, got 0"),
        ("[published.a.b]\nc = [1.0]", "a.b.c must be [accuracy, spread]"),
        ("base = 'papr'", "base must be a preset or a file beside the study, got 'papr'"),
        ("title =", "not valid TOML"),
    ],
)  # fmt: skip
def test_errors_name_the_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.toml"
    top = "" if text.startswith("title") else 'title = "t"\n'
    path.write_text(top + text)
    with pytest.raises(FedOrbitError) as caught:
        load_study(path)
    assert message in str(caught.value)
    assert "broken" in str(caught.value)
    assert "is_quick" not in str(caught.value)  # fedorbit writes it, users do not


def test_unknown_studies_and_seeds(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\(did you mean 'ablation'\?\); shipped are"):
        load_study("ablatoin")
    with pytest.raises(ConfigError, match="seed must be at least 0"):
        load_study("ablation", seeds=[-1])


# The sizes follow from the files: methods x partitions x seeds, mechanisms, values …
SIZES = {
    "ablation": (12 * 2 * 3, 12 * 2),
    # FedOrbit once, four baselines with three efforts each
    "compute-matched": (31 * 2 * 3, 31 * 2),
    # 3 x 2 sizes on two partitions, 3 sets of stations, 3 altitudes; 3 methods, 3 seeds
    "constellations": ((3 * 2 * 2 + 3 + 3) * 3 * 3, (2 * 1 * 2 + 3 + 2) * 3),
    "dynamic": (5 * 3 * 2 * 3, 5 * 3 * 2),
    "links": (4 * 4 * 2 * 3, 4 * 4 * 2),
    # 26 methods, FedOrbit with two momenta; quick: over physical links alone
    "own": (27 * 3 * 2 * 3, 27 * 2),
    "own-half": ((3 + 3 * 2) * 2 * 3, (3 + 3 * 2) * 2),
    "own-ablation": (10 * 2 * 3, 10 * 2),
    # Values beside the defaults: momentum 3, every 3, mates 3, epochs 2; and one run with all defaults
    "own-links": (2 * 2 * 2 * 3, 2 * 2 * 2),
    "own-sensitivity": ((3 + 3 + 2 + 2 + 1) * 2 * 3, (1 + 1 + 2 + 2 + 1) * 2),
    "paper-eurosat": (12 * 2 * 3, 12 * 2),
    "paper-resisc45": (12 * 2 * 3, 12 * 2),
    "paper-so2sat": (12 * 2 * 3, 12 * 2),
    # Values beside the defaults (kappa 4, rho 4, s_e 3, dark 3, smoothing 4), 5 fixed betas, and one
    # run with all defaults.
    # six methods, three constellations, two partitions; quick: one
    "space": (13 * 3 * 3, 13 * 3),
    "sensitivity": ((4 + 4 + 3 + 3 + 4 + 5 + 1) * 2 * 3, (2 + 2 + 1 + 2 + 2 + 3 + 1) * 2),
}


def test_all_shipped_studies_are_tested() -> None:
    assert set(shipped_names()) == SIZES.keys()


@pytest.mark.parametrize("name", SIZES)
def test_shipped_studies_expand(name: str) -> None:
    full, quick = load_study(name), load_study(name, quick=True)
    assert (len(full.runs), len(quick.runs)) == SIZES[name]
    assert {cell.config.seed for cell in full.cells} == {0, 1, 2}
    assert {cell.config.data.name for cell in quick.cells} == {"synthetic"}
    rounds = 400 if name in ("paper-resisc45", "space") else 200
    assert {cell.config.run.rounds for cell in full.cells} == {rounds}
    assert all(cell.config.schedule.rounds == 400 for cell in full.cells)


def test_the_constellations_of_the_space_study_are_those_of_the_presets() -> None:
    presets = {"paper": "paper", "leo-fl": "kepler-leo-fl", "two-haps": "paper-two-haps"}
    for cell in load_study("space").cells:
        assert cell.variant is not None
        preset = load_config(presets[cell.variant.name])
        assert cell.config.constellation == preset.constellation
        assert cell.config.stations == preset.stations
        assert cell.config.is_routed


def test_a_job_of_the_space_study_takes_two_rounds() -> None:
    for study in (load_study("space"), load_study("space", quick=True)):
        config = next(c.config for c in study.cells if c.variant and c.variant.name == "paper")
        images = config.data.synthetic.samples if study.quick else 27_000  # EuroSAT
        each = images * config.data.share * (1.0 - config.data.test_share) / (5 * 4)
        assert config.onboard is not None
        [speed] = config.onboard.samples_per_s
        job_s = each * config.training.epochs / speed
        assert job_s == pytest.approx(2 * config.schedule.round_s, rel=0.01)


def test_the_space_study_knows_the_period_of_its_high_orbits() -> None:
    study = load_study("space", seeds=[0], overrides=["method=fedasync"])
    periods = {}
    for cell in study.cells:
        semi_major_km = 6378.137 + cell.config.constellation.altitude_km
        kepler_s = 2.0 * math.pi * math.sqrt(semi_major_km**3 / 398_600.4418)
        made = make_method("fedasync", cell.config.methods.get("fedasync", {}))
        periods[cell.config.constellation.altitude_km] = made.period_s, kepler_s
    assert len(periods) == 2
    for given_s, kepler_s in periods.values():
        assert given_s == pytest.approx(kepler_s, rel=1e-3)


def test_every_mechanism_is_ablated_alone() -> None:
    study = load_study("ablation", seeds=[0], overrides=["partition=dirichlet"])
    changed = {
        c.variant.name: c.config.methods.get("fedorbit", {}) for c in study.cells if c.variant
    }
    assert changed.pop("all-off") == {
        "continuous": False, "class_rows": False, "magnitude_features": False,
        "quality_weights": False, "kappa": 0.0, "catch_up": 0.0, "rho": 1.0, "beta": 1.0,
    }  # fmt: skip
    assert sorted(map(repr, changed.values())) == sorted(
        map(
            repr,
            [
                {}, {"continuous": False}, {"class_rows": False}, {"magnitude_features": False},
                {"quality_weights": False}, {"kappa": 0.0}, {"catch_up": 0.0}, {"rho": 1.0},
                {"beta": 0.0}, {"beta": 1.0}, {"blend": "literal"},
            ],
        )
    )  # fmt: skip


def test_published_values_are_the_papers() -> None:
    eurosat = load_study("paper-eurosat").file.published["eurosat"]
    assert eurosat["dirichlet"]["fedorbit"] == [76.4, 15.8]
    assert eurosat["pathological"]["ditto"] == [95.8, 9.7]
    so2sat = load_study("paper-so2sat").file.published["so2sat"]
    assert so2sat["pathological"]["apfl"] == [40.7, 70.2]
    resisc45 = load_study("paper-resisc45").file.published["resisc45"]
    assert resisc45["dirichlet"]["fedprox"] == [38.1, 9.9]


def test_the_study_file_tells_published_values_where_the_run_is_what_was_published(
    tmp_path: Path,
) -> None:
    def written(*overrides: str) -> dict[str, list[float]]:
        write_study(load_study("paper-eurosat", seeds=[0], overrides=overrides), tmp_path)
        cells = tomllib.loads((tmp_path / STUDY).read_text())["cells"]
        return {cell["folder"]: cell["published"] for cell in cells if "published" in cell}

    full = written()
    assert len(full) == 10  # five methods, two partitions; not Local and Centralised
    assert full["eurosat_pathological_fedorbit_seed0"] == [94.9, 12.5]
    assert written("engine.workers=1") == full
    assert written("run.rounds=50") == {}


def test_a_study_of_bundled_element_sets_keeps_their_name(tmp_path: Path) -> None:
    path = tmp_path / "real.toml"
    path.write_text(
        "title = 'real satellites'\nbase = 'iridium-next-tle'\n[common]\nmethod = ['fedavg']\n"
    )
    [cell] = load_study(path).cells
    assert str(cell.config.constellation.file) == "bundled:iridium-next-2021-01-30"
    assert cell.config.constellation.path.is_file()
