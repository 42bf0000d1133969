"""The page in a real browser: it draws, answers the keyboard, and asks the network for nothing.

A screenshot of each look lands in pytest's output folder, or in FEDORBIT_SCREENSHOTS if that is set.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedorbit.report.page import write_page
from fedorbit.report.replicates import compare
from fedorbit.report.runfiles import read_runs
from tests.patience import PATIENCE_S
from tests.report.run_folders import EVIL, linked_world, world, write_run, write_space, write_sweep

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine; scripts/install-chromium.sh installs it"
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


class Opened:
    """A page in a browser, with everything that it said and asked for."""

    def __init__(self, browser, file: Path, width: int = 1200, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.set_default_timeout(1000 * PATIENCE_S)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def chart(self, name: str):
        return self.page.locator(f'section.setting:visible figure[data-chart="{name}"] .plot')


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def study(tmp_path: Path) -> Path:
    for seed, accuracy in ((0, 60.0), (1, 70.0)):
        for scheme in ("dirichlet", "pathological"):
            write_run(
                tmp_path / "study" / f"{scheme}-{seed}",
                {"fedavg": accuracy - 12.0, "fedorbit": accuracy, EVIL: 30.0},
                seed=seed,
                setting=world(station=EVIL, first_class=EVIL),
                partition={"scheme": scheme},
            )
    return tmp_path / "study"


@pytest.fixture
def file(study: Path, tmp_path: Path) -> Path:
    return write_page(tmp_path / "page.html", compare(read_runs([study])))


def save_screenshot(opened: Opened, tmp_path: Path, name: str) -> None:
    folder = Path(os.environ.get("FEDORBIT_SCREENSHOTS", tmp_path))
    path = folder / f"report-{name}.png"
    opened.page.screenshot(path=path, full_page=True)
    assert path.stat().st_size > 10_000


def test_it_draws_everything_and_asks_for_nothing(browser, file: Path, tmp_path: Path) -> None:
    opened = Opened(browser, file)
    charts = (
        "accuracy spread hours samples bytes orbits confusion timeline map classes similarity "
        "traffic"
    )
    for name in charts.split():
        assert opened.chart(name).locator("svg :is(path, rect, circle)").count() >= 3, name
    assert opened.chart("accuracy").locator(".band").count() == 3  # two seeds: three bands
    assert opened.complaints == []
    assert opened.requests == [file.as_uri()]
    save_screenshot(opened, tmp_path, "light")


def test_the_headline_says_what_the_summaries_say(browser, file: Path, study: Path) -> None:
    opened = Opened(browser, file)
    summaries = [
        json.loads(path.read_text())["accuracy"]
        for path in study.glob("dirichlet-*/fedorbit/summary.json")
    ]
    row = opened.page.locator('#headline tr[data-series="fedorbit"]').first
    accuracy = row.locator("td").first
    assert accuracy.inner_text() == f"{sum(summaries) / 2:.1f} ± 7.1"  # 10 / sqrt(2)
    assert accuracy.locator("strong").count() == 1
    other = opened.page.locator('#headline tr[data-series="fedavg"]').first.locator("td").first
    assert other.locator("strong").count() == 0


def test_the_slider_moves_the_map_by_keyboard(browser, file: Path) -> None:
    opened = Opened(browser, file)
    figure = opened.page.locator('section.setting:visible figure[data-chart="map"]')
    before = figure.locator(".plot").inner_html()
    assert figure.locator(".satellite.seen").count() == 1
    assert "Round 0, 0 h 00 min after the start. In view: orbit 0." in figure.inner_text()
    figure.locator("input[type=range]").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowRight")
    assert "Round 2, 0 h 10 min after the start. In view: none." in figure.inner_text()
    assert figure.locator(".satellite.seen").count() == 0
    assert figure.locator(".plot").inner_html() != before
    assert opened.complaints == []


def test_the_map_draws_the_links_of_the_moment(browser, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"fedavg": 50.0}, setting=linked_world())
    opened = Opened(browser, write_page(tmp_path / "page.html", compare(read_runs([run]))))
    figure = opened.page.locator('section.setting:visible figure[data-chart="map"]')
    assert figure.locator("path.link").count() == 1
    line = figure.locator("path.link").get_attribute("d")
    ends = [figure.locator(".satellite").nth(s).get_attribute("cx") for s in (0, 1)]
    first, *_, last = line.replace("M", "L").split("L")[1:]
    assert [first.split()[0], last.split()[0]] == [f"{float(x):.1f}" for x in ends]
    figure.locator("input[type=range]").focus()
    for links in (2, 2, 1):  # in rounds 1, 2 and 3
        opened.page.keyboard.press("ArrowRight")
        assert figure.locator("path.link").count() == links
    assert opened.complaints == []


def test_the_map_goes_on_playing_after_it_was_drawn_again(browser, file: Path) -> None:
    opened = Opened(browser, file)
    figure = opened.page.locator('section.setting:visible figure[data-chart="map"]')
    figure.locator("button.play").click()
    opened.page.locator("button.toggle", has_text="fedavg").click()  # draws all charts again
    drawn = figure.locator(".satellite").first.get_attribute("cx")
    opened.page.wait_for_function(
        "([was]) => document.querySelector('.satellite').getAttribute('cx') !== was", arg=[drawn]
    )
    opened.page.select_option("#setting", "1")
    ids = opened.page.evaluate("[...document.querySelectorAll('clipPath')].map((clip) => clip.id)")
    assert len(set(ids)) == len(ids) == 2
    assert opened.complaints == []


def test_series_and_settings_can_be_chosen(browser, file: Path) -> None:
    opened = Opened(browser, file)
    assert opened.chart("accuracy").locator('g[data-series="fedavg"]').count() == 1
    toggle = opened.page.locator("button.toggle", has_text="fedavg")
    toggle.focus()
    opened.page.keyboard.press("Enter")
    assert toggle.get_attribute("aria-pressed") == "false"
    assert opened.chart("accuracy").locator('g[data-series="fedavg"]').count() == 0
    assert opened.chart("accuracy").locator('g[data-series="fedorbit"]').count() == 1
    opened.page.select_option("#setting", "1")
    assert opened.page.locator("section.setting:visible h2").inner_text() == "pathological"
    assert opened.chart("accuracy").locator('g[data-series="fedavg"]').count() == 0
    assert opened.complaints == []


def background(opened: Opened) -> str:
    return opened.page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_by_preference_and_by_button(browser, file: Path, tmp_path: Path) -> None:
    dark = Opened(browser, file, scheme="dark")
    light = Opened(browser, file)
    assert background(light) == "rgb(255, 255, 255)"
    assert background(dark) == "rgb(18, 23, 29)"
    light.page.locator("#theme").click()
    assert background(light) == background(dark)
    save_screenshot(dark, tmp_path, "dark")


def test_a_phone_needs_no_sideways_scrolling(browser, file: Path, tmp_path: Path) -> None:
    opened = Opened(browser, file, width=360)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 360
    save_screenshot(opened, tmp_path, "phone")


def test_seventy_two_orbits_are_drawn(browser, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "shell", {"fedavg": 50.0})
    records = folder / "fedavg" / "records.jsonl"
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    many = {"orbit_accuracy": [*map(float, range(72))], "orbit_loss": [None] * 72}
    wide = [{**row, **many, "epochs": [1] * 72} for row in rows]
    records.write_text("".join(json.dumps(row) + "\n" for row in wide))
    page = write_page(tmp_path / "page.html", compare(read_runs([folder])))
    opened = Opened(browser, page)
    assert opened.chart("orbits").locator("rect").count() == 72 * len(rows)
    assert opened.complaints == []


@pytest.mark.parametrize("width", [360, 1200])
def test_a_parameter_that_was_varied_is_drawn(browser, tmp_path: Path, width: int) -> None:
    study = write_sweep(tmp_path / "study", seeds=(0, 1), default=1e-6)
    file = write_page(tmp_path / "page.html", compare(read_runs([study])))
    opened = Opened(browser, file, width=width)
    plot = opened.chart("sweep")
    assert plot.locator(".curve").count() == plot.locator(".band").count() == 2
    assert plot.locator("line[stroke-dasharray]").count() == 1  # the default
    assert {"0", "0.000001", "2"} <= set(plot.locator("text").all_text_contents())
    svg = plot.locator("svg").first
    svg.hover(position={"x": 0.6 * svg.bounding_box()["width"], "y": 100}, force=True)
    assert plot.locator(".tip").inner_text().startswith("kappa 0.000001")  # the nearest value
    assert "64.5" in plot.locator(".tip").inner_text()
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.complaints == []


@pytest.mark.parametrize("width", [360, 1200])
def test_what_methods_noted_is_drawn(browser, tmp_path: Path, width: int) -> None:
    runs = write_space(tmp_path / "runs", seeds=(0, 1))
    file = write_page(tmp_path / "page.html", compare(read_runs([runs])))
    opened = Opened(browser, file, width=width)
    for name in ("staleness", "version", "idle_visit"):
        plot = opened.chart(name)
        assert plot.locator("g[data-series]").count() == 1, name  # FedAvg noted nothing
        assert plot.locator('g[data-series="fedsat"] .curve').count() == 1, name
        assert "simulated hours" in plot.locator("text").all_text_contents()
    assert opened.chart("hours").locator(".curve").count() == 2
    # The main chart is as wide as the page, the others stand in pairs where there is room.
    widths = [opened.chart(name).bounding_box()["width"] for name in ("hours", "staleness")]
    assert (widths[0] > 1.8 * widths[1]) is (width == 1200)
    svg = opened.chart("version").locator("svg").first
    svg.hover(position={"x": svg.bounding_box()["width"] - 12, "y": 100}, force=True)
    assert "fedsat" in opened.chart("version").locator(".tip").inner_text()
    assert "4.0" in opened.chart("version").locator(".tip").inner_text()
    toggle = opened.page.locator("button.toggle", has_text="fedsat")
    toggle.focus()
    opened.page.keyboard.press("Enter")
    assert opened.chart("staleness").locator("g[data-series]").count() == 0
    data = opened.page.locator('figure[data-chart="idle_visit"] details')
    data.locator("summary").focus()
    opened.page.keyboard.press("Enter")
    assert data.locator("tbody tr").last.inner_text().split() == ["1.0", "15.0", "±", "0.0"]
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.complaints == []
    assert opened.requests == [file.as_uri()]
    save_screenshot(opened, tmp_path, f"notes-{width}")


def test_a_confusion_matrix_of_a_method_and_orbit(browser, file: Path) -> None:
    """Two seeds: of 4 fields in orbit 0 two are right, of 8 towns in orbit 1 six."""
    opened = Opened(browser, file)
    figure = opened.page.locator('section.setting:visible figure[data-chart="confusion"]')

    def cells() -> list[str]:
        return figure.locator("rect title").all_text_contents()

    assert cells()[2:] == [
        f"town taken for {EVIL}: 2 of 8 (25.0 %)",
        "town taken for town: 6 of 8 (75.0 %)",
    ]
    figure.locator("select.confusion-method").select_option(label="fedavg")
    figure.locator("select.confusion-orbit").select_option(label="0")
    assert cells() == [
        f"{EVIL} taken for {EVIL}: 2 of 4 (50.0 %)",
        f"{EVIL} taken for town: 2 of 4 (50.0 %)",
    ]
    figure.locator("select.confusion-orbit").select_option(label="2")
    assert "No test sample" in figure.locator(".plot").text_content()
    assert opened.complaints == []


def test_axes_fit_what_is_drawn_or_show_everything(browser, file: Path) -> None:
    """Accuracies of 30, 53 and 65 with bands over two seeds; the last ones reach 100."""
    opened = Opened(browser, file)
    labels = opened.chart("spread").locator("text")
    fitted = labels.all_text_contents()
    assert "20" in fitted and "100" not in fitted and "0" not in fitted[:3]
    opened.page.locator("#full-scale").click()
    assert {"0", "20", "100"} <= set(labels.all_text_contents())
    assert opened.complaints == []
