"""Start-up time of commands: CPU time of whole processes, over that of `import numpy`."""

import os
import subprocess
import sys
from functools import partial

from alternating import alternate, ratios, spread

COMMANDS = ("--help", "methods", "data list", "orbits --contacts 0")
REPEATS = 12


def call(*arguments: str) -> None:
    """Run Python with these arguments, and drop what it prints."""
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)


def children_s() -> float:
    """Return the CPU time of all processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def main(repeats: int = REPEATS, commands: tuple[str, ...] = COMMANDS) -> None:
    contestants = {c: partial(call, "-m", "fedorbit", *c.split()) for c in commands}
    contestants["numpy"] = partial(call, "-c", "import numpy")
    seconds = alternate(contestants, repeats, children_s)
    for command in commands:
        print(f"fedorbit {command}: {spread(ratios(seconds[command], seconds['numpy']))}")


if __name__ == "__main__":
    main()
