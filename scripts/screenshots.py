"""Take the screenshots of the documentation, in docs/images: python scripts/screenshots.py.

Trains the quickstart's constellation, shows it by `fedorbit serve` and `fedorbit report`, and takes
pictures in Chromium. Needs the packages of the tests, and scripts/install-chromium.sh. Runs that
are there are not made again.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pictures import write_small
from playwright.sync_api import Browser, Locator, Page, sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
RUNS = Path(tempfile.gettempdir()) / "fedorbit" / "runs"
"""The list of runs shows this path."""
FLAGS = ["--headless", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
COMMANDS = {
    "quickstart": ["run", "-m", "fedavg", "-m", "fedorbit", "-m", "rendezvous",
                   "-o", "methods.rendezvous.epochs=3"],  # for nearly equal effort
    "starlink": ["run", "starlink-shell1", "-m", "fedavg", "-o", "run.rounds=4",
                 "-o", "network.isl=line-of-sight", "-o", "network.max_range_km=2000",
                 "-o", "network.terminals=4", "-o", "data.synthetic.samples=20000"],
}  # fmt: skip
AFTER_S = 6 * 3600 + 30
"""Moment at which the globe is shown."""


def fedorbit(*arguments: str) -> list[str]:
    """Return a command line of this installation."""
    return [sys.executable, "-m", "fedorbit", *arguments]


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder, and yield the address."""
    command = fedorbit("serve", str(folder), "--port", "0", "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        text = ""
        for line in server.stdout or ():
            text += line
            if line == "}\n":
                break
        try:
            yield json.loads(text)["address"]
        finally:
            server.terminate()


def opened(
    browser: Browser, address: str, width: int = 1200, height: int = 760, scheme: str = "light"
) -> Page:
    """Open a page and wait until it is drawn; its bar does not cover what is below."""
    size = {"width": width, "height": height}
    page = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(address)
    page.wait_for_load_state("load")
    page.evaluate(
        "document.querySelectorAll('.bar').forEach((bar) => bar.style.position = 'static')"
    )
    return page


def save(what: Page | Locator, name: str) -> None:
    """Write a picture of a page, or of a part of it."""
    picture = RUNS / f"{name}.png"
    what.screenshot(path=picture)
    write_small(picture, IMAGES / picture.name)


def globe(browser: Browser, address: str, points: int, time_s: int) -> Page:
    """Open the globe of a run at a moment, and wait until satellites and stations are drawn."""
    page = opened(browser, address)
    page.locator(f'#globe[data-points="{points}"]').wait_for(timeout=60_000)
    page.locator("#time").fill(str(time_s))
    page.wait_for_timeout(3_000)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    return page


def main() -> None:
    """Take all pictures."""
    RUNS.mkdir(parents=True, exist_ok=True)
    for name, arguments in COMMANDS.items():
        if not (RUNS / name).exists():
            subprocess.run(fedorbit(*arguments, "--out", str(RUNS / name)), check=True)
    report = RUNS / "report.html"
    subprocess.run(fedorbit("report", str(RUNS / "quickstart"), "--out", str(report)), check=True)
    with sync_playwright() as driver, serving(RUNS) as address:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        run = f"{address}runs?name=quickstart"
        save(opened(browser, address), "serve-list")
        save(opened(browser, run), "serve-light")
        save(opened(browser, run, scheme="dark"), "serve-dark")
        save(opened(browser, run, 390, 844), "serve-phone")
        page = globe(browser, f"{address}globe?name=quickstart", 21, AFTER_S)
        save(page, "serve-globe")
        save(page.locator("#globe"), "globe")
        save(globe(browser, f"{address}globe?name=starlink", 1589, 1110), "serve-starlink")
        page = opened(browser, report.as_uri(), height=1250)
        save(page, "report")
        for chart in ("confusion", "transfers", "map"):
            save(page.locator(f'figure[data-chart="{chart}"]').first, f"report-{chart}")
        browser.close()


if __name__ == "__main__":
    main()
