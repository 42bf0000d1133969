"""Frames of the live page's globe while it plays, in Chromium.

Counts calls of requestAnimationFrame, and the time of scripts in each: without a GPU the first is
how fast the processor draws the pixels, the second what the page itself takes of a frame.

Usage: fedorbit serve DIR, then: python benchmarks/globe.py http://127.0.0.1:8420/ [MORE] NAME
           [--seconds 10] [--gpu]
"""

import argparse
import shutil
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, sync_playwright

FRAMES = """(seconds) => new Promise((done) => {
  let frames = 0;
  const begin = performance.now();
  const count = () => {
    frames += 1;
    if (performance.now() - begin < 1000 * seconds) requestAnimationFrame(count);
    else done(frames);
  };
  requestAnimationFrame(count);
})"""
READY = "Number(document.getElementById('globe').dataset.points) > 0"


SAMPLED_BYTES = 512


class Played:
    """A globe that plays, in a page of its own."""

    def __init__(self, browser: Browser, address: str, name: str) -> None:
        self._page = browser.new_page(viewport={"width": 1200, "height": 900})
        self._session = self._page.context.new_cdp_session(self._page)
        self._session.send("Performance.enable")
        self._page.goto(f"{address}globe?name={quote(name)}")
        while not self._page.evaluate(READY):
            self._page.wait_for_timeout(100)

    def measured(self, seconds: float) -> tuple[float, float, float]:
        """Play; return frames per second, and ms in scripts and bytes allocated of each."""
        self._page.locator("#play").click()
        self._page.wait_for_timeout(2000)  # the resolution has been chosen
        everything = {f"includeObjectsCollectedBy{kind}GC": True for kind in ("Major", "Minor")}
        self._session.send(
            "HeapProfiler.startSampling", {"samplingInterval": SAMPLED_BYTES, **everything}
        )
        before_s = self._script_s()
        frames = int(self._page.evaluate(FRAMES, seconds))
        per_frame_ms = 1000.0 * (self._script_s() - before_s) / frames
        profile = self._session.send("HeapProfiler.stopSampling")["profile"]
        self._page.locator("#play").click()
        return frames / seconds, per_frame_ms, _allocated(profile["head"]) / frames

    def drawn(self) -> dict[str, str]:
        """Return the state of the canvas, as its data attributes."""
        return dict(self._page.evaluate("({...document.getElementById('globe').dataset})"))

    def _script_s(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        [value] = [m["value"] for m in metrics if m["name"] == "ScriptDuration"]
        return float(value)


def _allocated(node: dict[str, Any]) -> float:
    """Bytes that the globe's own scripts allocated, from a sampled profile."""
    own = node["selfSize"] if "/assets/globe" in node["callFrame"]["url"] else 0
    return own + sum(map(_allocated, node["children"]))


def main() -> None:
    """Play a run, and print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", nargs="+", help="several are played in turns and compared")
    parser.add_argument("name")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--gpu", action="store_true", help="else the processor draws")
    asked = parser.parse_args()
    software = [] if asked.gpu else ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", *software]
        )
        rates = []
        for address in asked.address:
            globe = Played(browser, address, asked.name)
            rate, script_ms, allocated = globe.measured(asked.seconds)
            drawn = globe.drawn()
            rates.append(rate)
            print(
                f"{address}: {drawn['points']} points, {drawn['lines']} lines, "
                f"{rate:.1f} frames/s ({rate / rates[0]:.2f} of the first); "
                f"of each {script_ms:.1f} ms in scripts, {allocated:,.0f} bytes allocated"
            )
        browser.close()


if __name__ == "__main__":
    main()
