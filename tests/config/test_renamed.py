"""Keys under the names of earlier versions: in files, overrides, studies and folders of runs."""

import json
import warnings
from pathlib import Path

import pytest

from fedorbit.config import load_config
from fedorbit.config.files import dumps
from fedorbit.documents import sealed
from fedorbit.errors import ConfigError, RunError
from fedorbit.simulation.manifest import overridden, read_stored, stored_config
from fedorbit.studies import load_study

OLD = 'extends = "quickstart"\n[link_rates]\ngs_uplink_mbps = 2.0\ngs_downlink_mbps = 3.0\n'


def rates_of(config) -> tuple[float | None, float | None]:
    return config.link_rates.to_ground_mbps, config.link_rates.from_ground_mbps


def test_a_file_with_old_names_is_read_with_a_warning_for_each(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OLD)
    with pytest.warns(UserWarning) as caught:
        config = load_config(file)
    assert rates_of(config) == (2.0, 3.0)
    assert [str(w.message) for w in caught] == [
        f"{file}: link_rates.gs_uplink_mbps is now called link_rates.to_ground_mbps; it is still "
        "read, write the new name",
        f"{file}: link_rates.gs_downlink_mbps is now called link_rates.from_ground_mbps; it is "
        "still read, write the new name",
    ]
    assert "gs_uplink_mbps" not in dumps(config)


@pytest.mark.parametrize("name", ["gs_uplink_mbps", "to_ground_mbps"])
@pytest.mark.filterwarnings("ignore:.*is now called")
def test_an_override_of_either_name_is_laid_over_a_file_of_old_names(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "mine.toml").write_text(OLD)
    config = load_config(tmp_path / "mine.toml", [f"link_rates.{name}=7"])
    assert rates_of(config) == (7.0, 3.0)


def test_both_names_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OLD + "to_ground_mbps = 2.0\n")
    told = r"link_rates.to_ground_mbps and its old name link_rates.gs_uplink_mbps are both given"
    with pytest.raises(ConfigError, match=rf"mine.toml: {told}; remove link_rates.gs_uplink_mbps"):
        load_config(file)
    both = ["link_rates.to_ground_mbps=1", "link_rates.gs_uplink_mbps=2"]
    with pytest.raises(ConfigError, match=rf"overrides: {told}"):
        load_config("quickstart", both)


@pytest.mark.parametrize("table", ["1", '"fast"', "[1]"])
def test_a_table_that_is_none_is_left_to_the_schema(table: str) -> None:
    with pytest.raises(ConfigError, match=r"link_rates must be a table"):
        load_config("quickstart", [f"link_rates={table}"])


def old_folder(folder: Path, mbps: float = 2.0) -> Path:
    """Make a run's folder as earlier versions wrote it, in which the rate may have been changed."""
    folder.mkdir()
    text = '[run]\nmethod = ["fedavg"]\nrounds = 3\n[link_rates]\ngs_uplink_mbps = {}\n'
    (folder / "config.toml").write_text(text.format(mbps))
    settings = {"run.method": ["fedavg"], "run.rounds": 3, "link_rates.gs_uplink_mbps": 2.0}
    document = {"format": 2, "settings": settings, "files": {}, "code": {}}
    (folder / "run.json").write_text(json.dumps(sealed(document)))
    return folder


def test_the_folder_of_an_earlier_run_is_read_without_a_warning(tmp_path: Path) -> None:
    folder = old_folder(tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rates_of(stored_config(folder)) == (2.0, None)
        again = overridden(folder, read_stored(folder), ["link_rates.to_ground_mbps=2"])
    assert rates_of(again) == (2.0, None)
    told = r"was changed after the run began: link_rates.to_ground_mbps was 2.0 and is 5.0"
    with pytest.raises(RunError, match=told):
        read_stored(old_folder(tmp_path / "changed", 5.0))


@pytest.mark.filterwarnings("ignore:.*is now called")
def test_a_study_with_an_old_name_keeps_its_folders(tmp_path: Path) -> None:
    text = (
        'title = "Rates"\nbase = "quickstart"\n[settings]\nlink_rates.gs_downlink_mbps = 9.0\n'
        "[common]\nlink_rates.gs_uplink_mbps = [1.0, 2.0]\n"
    )
    (tmp_path / "rates.toml").write_text(text)
    study = load_study(tmp_path / "rates.toml", overrides=["method=fedavg"])
    assert [rates_of(cell.config) for cell in study.cells] == [(1.0, 9.0), (2.0, 9.0)]
    assert ["gs-uplink-mbps-1.0" in cell.slug for cell in study.cells] == [True, False]
    assert study.cells[1].value("link_rates.gs_uplink_mbps") == 2.0
    assert study.cells[1].value("link_rates.gs_downlink_mbps") == 9.0
