"""The lists that `make` installs from are complete: it installs nothing that they do not name."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEEDED = {"run": PROJECT["project"]["dependencies"]} | PROJECT["project"]["optional-dependencies"]


def normalised(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints() -> dict[str, str]:
    """Versions that constraints.txt pins."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {normalised(name): version for name, version in pins}


def listed(name: str) -> dict[str, str]:
    """Versions in requirements/NAME.txt and in the lists that it includes; all have hashes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if include := re.fullmatch(r"-r (\w+)\.txt", line):
            found |= listed(include[1])
        elif not line.startswith(("#", "--only-binary :all:")):
            # Packages for Windows are in no installation that is tested, and so in no constraints.
            pin = re.fullmatch(
                r"(\S+)==(\S+)( ; sys_platform == 'win32')?((?: +--hash=sha256:[0-9a-f]{64})+)",
                line,
            )
            assert pin, f"{line!r} is no pin with hashes"
            if not pin[3]:
                found[normalised(pin[1])] = pin[2]
    return found


@pytest.mark.parametrize("name", NEEDED)
def test_lists_name_what_the_project_needs(name: str) -> None:
    names = {normalised(re.split(r"[\[<>=]", need)[0]) for need in NEEDED[name]}
    assert names - {"fedorbit", "torch"} <= listed(name).keys()


def test_lists_pin_what_is_tested() -> None:
    assert listed("test") == {n: v for n, v in constraints().items() if n != "torch"}
    for name in NEEDED:
        assert listed(name).items() <= listed("test").items()


def test_the_build_backend_is_in_the_list() -> None:
    """The build uses the environment's own setuptools, which must be the one that is required."""
    assert PROJECT["build-system"]["requires"] == [f"setuptools=={listed('run')['setuptools']}"]
