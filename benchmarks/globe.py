"""Frames of the live page's globe while it plays, in Chromium.

Counts calls of requestAnimationFrame, and the time of scripts in each: without a GPU the first is
how fast the processor draws the pixels, the second what the page itself takes of a frame.

Usage: fedorbit serve DIR, then: python benchmarks/globe.py http://127.0.0.1:8420/ NAME
           [--seconds 10] [--gpu]
"""

import argparse
import shutil
from urllib.parse import quote

from playwright.sync_api import sync_playwright

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


def main() -> None:
    """Play a run, and print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("name")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--gpu", action="store_true", help="else the processor draws")
    asked = parser.parse_args()
    software = [] if asked.gpu else ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", *software]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")

        def script_s() -> float:
            metrics = session.send("Performance.getMetrics")["metrics"]
            [value] = [m["value"] for m in metrics if m["name"] == "ScriptDuration"]
            return float(value)

        page.goto(f"{asked.address}globe?name={quote(asked.name)}")
        while not page.evaluate(READY):
            page.wait_for_timeout(100)
        page.locator("#play").click()
        before_s = script_s()
        frames = int(page.evaluate(FRAMES, asked.seconds))
        per_frame_ms = 1000.0 * (script_s() - before_s) / frames
        drawn = page.evaluate("({...document.getElementById('globe').dataset})")
        browser.close()
    print(
        f"{drawn['points']} points, {drawn['lines']} lines: {frames / asked.seconds:.1f} frames/s,"
    )
    print(f"of each {per_frame_ms:.1f} ms in scripts")


if __name__ == "__main__":
    main()
