"""Optional extras, as the installed fedorbit declares them, and the command that installs one."""

import re
import shlex
from importlib import metadata

_OF_EXTRA = re.compile(r"(?P<requirement>[^;\[]+);.*extra == ['\"](?P<extra>[\w.-]+)['\"]")
"""A requirement of an extra; not that of an extra that consists of others, `fedorbit[…]`."""


def extras() -> dict[str, list[str]]:
    """Return the requirements of each extra, such as `starlette>=0.40`; none without metadata."""
    try:
        declared = metadata.requires("fedorbit") or []
    except metadata.PackageNotFoundError:  # run from a clone that is not installed
        return {}
    found: dict[str, list[str]] = {}
    for match in filter(None, map(_OF_EXTRA.match, declared)):
        found.setdefault(match["extra"], []).append(match["requirement"].strip())
    return found


def install_extra(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    It names the packages, not `fedorbit[extra]`: no release of fedorbit is published, and the
    command has to work for a clone and for a wheel file.
    """
    packages = extras().get(extra)
    if not packages:
        return f"pip install '.[{extra}]' in a clone of fedorbit"
    return f"pip install {shlex.join(packages)}"
