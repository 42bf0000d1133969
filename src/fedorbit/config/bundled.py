"""Element sets that come with the package, called `bundled:NAME` wherever it is installed."""

from importlib import resources
from pathlib import Path

SCHEME = "bundled:"


def bundled_name(file: Path) -> str | None:
    """Return the name in `bundled:NAME`; None for a file of the user's."""
    text = str(file)
    return text.removeprefix(SCHEME) if text.startswith(SCHEME) else None


def bundled_elements() -> dict[str, Path]:
    """Files of element sets in the package, by name."""
    folder = Path(str(resources.files("fedorbit"))) / "presets" / "elements"
    return {path.stem: path for path in sorted(folder.glob("*.tle"))}
