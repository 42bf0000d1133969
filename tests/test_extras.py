"""Extras: their packages, and the command that installs them."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from fedorbit.extras import extras, install_extra

ROOT = Path(__file__).parents[1]


def test_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extras().keys() == project["optional-dependencies"].keys()
    assert extras()["serve"] == project["optional-dependencies"]["serve"]
    assert not any("fedorbit" in package for packages in extras().values() for package in packages)


def test_the_command_names_packages_with_their_bounds() -> None:
    assert install_extra("serve") == "pip install 'starlette>=0.40' 'uvicorn>=0.30'"


def test_without_metadata_the_command_is_that_of_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    assert install_extra("serve") == "pip install '.[serve]' in a clone of fedorbit"


def test_no_text_installs_fedorbit_by_its_name() -> None:
    """It has no release: what is found under that name would be another's."""
    texts = [*(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    by_name = re.compile(r"install '?fedorbit(?:\\*\[|'|$)", re.MULTILINE)
    assert [p.name for p in texts if by_name.search(p.read_text(encoding="utf-8"))] == []
