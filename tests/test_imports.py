"""Imports point one way: no package imports one that is built on it."""

import ast
from pathlib import Path

import pytest

import fedorbit

SOURCE = Path(fedorbit.__file__).parent
TOP = ("results", "studies", "report", "serve", "cli")
NOT_FOR = {
    "orbits": ("data", "learning", "fleet", "methods", "simulation", *TOP),
    "data": ("learning", "fleet", "methods", "simulation", *TOP),
    "learning": ("orbits", "fleet", "methods", "simulation", *TOP),
    "fleet": ("data", "methods", "simulation", *TOP),
    "methods": ("orbits", "simulation", *TOP),
    "simulation": TOP,
    "results": (
        "orbits",
        "data",
        "learning",
        "fleet",
        "methods",
        "studies",
        "report",
        "serve",
        "cli",
    ),
    "report": ("studies", "serve", "cli"),
    "studies": ("report", "serve", "cli"),
    "serve": ("studies", "cli"),
}


def modules(file: Path) -> set[str]:
    """Return all imports of a file, anywhere in it: modules, and names of them."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def imported(file: Path) -> set[str]:
    """Packages of fedorbit that a file imports."""
    return {name.split(".")[1] for name in modules(file) if name.startswith("fedorbit.")}


PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
ON_TOP = {
    "__init__": {"config", "data", "methods", "simulation"},
    "api": {"config", "report", "simulation"},
    "build": {"config", "data", "orbits"},
    "diagnosis": {"config", "data", "learning", "studies", "simulation"},
    "__main__": {"cli"},
}
"""Modules beside the packages that are built on some; all others are built on none."""


def test_single_modules_stand_below_the_packages() -> None:
    wrong = {
        file.name: sorted(found)
        for file in SOURCE.glob("*.py")
        if (found := (imported(file) & PACKAGES) - ON_TOP.get(file.stem, set()))
    }
    assert wrong == {}


@pytest.mark.parametrize("package", NOT_FOR)
def test_imports_point_downwards(package: str) -> None:
    files = list((SOURCE / package).rglob("*.py"))
    assert files
    wrong = {
        str(file.relative_to(SOURCE)): sorted(found)
        for file in files
        if (found := imported(file) & set(NOT_FOR[package]))
    }
    assert wrong == {}


def test_the_fleet_takes_plain_values_of_orbits_and_no_geometry() -> None:
    found = {
        name.removeprefix("fedorbit.orbits.")
        for file in (SOURCE / "fleet").rglob("*.py")
        for name in modules(file)
        if name.startswith("fedorbit.orbits.")
    }
    assert found == {
        "plan", "plan.Contact", "plan.ContactPlan", "plan.Pass", "plan.Window",
        "plan.with_lasting_links",
        "routing", "routing.Arrivals", "routing.ContactGraph", "routing.HopTimes",
        "service", "service.LinkRates",
    }  # fmt: skip
