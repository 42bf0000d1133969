"""Element sets in the package: found from anywhere, and undamaged."""

from pathlib import Path

import pytest

from fedorbit.config import load_config
from fedorbit.config.bundled import bundled_elements
from fedorbit.config.files import dumps
from fedorbit.config.inputs import anywhere, copies, input_files, own_files
from fedorbit.config.schema import ElementsSection
from fedorbit.errors import ConfigError

NAME = "iridium-next-2021-01-30"


def test_every_bundled_line_has_its_checksum_and_its_day() -> None:
    for name, path in bundled_elements().items():
        lines = path.read_text(encoding="ascii").splitlines()
        names, first, second = lines[0::3], lines[1::3], lines[2::3]
        assert len(set(names)) == len(names) == len(first) == len(second)
        for line in (*first, *second):
            digits = [int(c) for c in line[:-1].replace("-", "1") if c.isdigit()]
            assert (len(line), line[-1]) == (69, str(sum(digits) % 10)), line
        assert name.endswith("2021-01-30")
        assert {line[18:23] for line in first} == {"21030"}  # 30 January is day 30 of the year
        days = [float(line[18:32]) for line in first]
        assert max(days) - min(days) < 0.25
        # Each epoch is at the ascending node: argument of perigee and mean anomaly make a turn.
        assert all((float(s[34:42]) + float(s[43:51])) % 360.0 < 0.2 for s in second)
        assert path.stat().st_size < 20_000


def test_a_preset_names_its_element_sets_without_a_path(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config("iridium-next-tle")
    assert isinstance(config.constellation, ElementsSection)
    assert config.constellation.path == bundled_elements()[NAME]
    assert anywhere(config) == config
    printed = dumps(config)
    assert f'file = "bundled:{NAME}"' in printed
    folder = tmp_path / "deep" / "down"
    folder.mkdir(parents=True)
    (folder / "my.toml").write_text(printed)
    assert load_config(folder / "my.toml") == config


def test_a_users_file_may_name_them_too(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(f"[constellation]\nkind = 'elements'\nfile = 'bundled:{NAME}'")
    section = load_config(file).constellation
    assert isinstance(section, ElementsSection)
    assert section.path.is_file()


def test_what_is_not_bundled_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[constellation]\nkind = 'elements'\nfile = 'bundled:iridium-next-2021'")
    with pytest.raises(ConfigError) as error:
        load_config(file)
    assert str(error.value) == (
        f"{file}: constellation.file: no element set file 'iridium-next-2021' is bundled "
        f"(did you mean '{NAME}'?); there are {NAME}"
    )


def test_a_users_path_becomes_one_that_holds_everywhere(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    overrides = ["constellation.kind=elements", "constellation.file=sets/mine.tle"]
    config = load_config("paper", [*overrides, "schedule.plan=sets/plan.csv"])
    assert config.constellation.path == Path("sets/mine.tle")
    found = anywhere(config)
    assert found.constellation.path == tmp_path / "sets" / "mine.tle"
    assert found.schedule.plan == tmp_path / "sets" / "plan.csv"
    assert own_files(config) == input_files(config)
    assert copies(found) == {
        "elements.tle": found.constellation.path,
        "plan.csv": found.schedule.plan,
    }
