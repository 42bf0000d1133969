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

    def __init__(
        self, browser, file: Path, width: int = 1200, scheme: str = "light", has_touch: bool = False
    ) -> None:
        self.page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=has_touch
        )
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
        "accuracy spread samples bytes orbits confusion per-class timeline map classes similarity "
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
    assert "Round 0, 0 h 00 min after the start. Orbits in view: 0." in figure.inner_text()
    figure.locator("input[type=range]").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowRight")
    assert "Round 2, 0 h 10 min after the start. Orbits in view: none." in figure.inner_text()
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


def test_a_double_click_shows_one_method_alone_and_all_again(browser, file: Path) -> None:
    opened = Opened(browser, file)
    toggles, curves = opened.page.locator("button.toggle"), opened.chart("accuracy")
    fedavg = toggles.filter(has_text="fedavg")
    fedavg.dblclick()
    assert curves.locator("g[data-series]").count() == 1
    assert curves.locator('g[data-series="fedavg"]').count() == 1
    assert [b.get_attribute("aria-pressed") for b in toggles.all()].count("true") == 1
    fedavg.focus()
    opened.page.keyboard.press("Shift+Enter")
    assert curves.locator("g[data-series]").count() == 3
    assert {b.get_attribute("aria-pressed") for b in toggles.all()} == {"true"}
    assert opened.complaints == []


def test_settings_are_drawn_together(browser, file: Path) -> None:
    """Of two settings with three methods each, colours are the methods' and dashes the settings'."""
    opened = Opened(browser, file)
    opened.page.select_option("#setting", label="all together")
    assert opened.page.locator("section.setting:visible h2").inner_text() == "All settings together"
    for name in ("accuracy", "spread", "samples", "bytes"):
        assert opened.chart(name).locator(".curve").count() == 6, name
        assert opened.chart(name).locator(".legend").inner_text().split() == [
            "dirichlet", "pathological",
        ]  # fmt: skip
    of = "(curves) => curves.map((curve) => [curve.getAttribute('stroke-dasharray'), getComputedStyle(curve).stroke])"
    found = opened.chart("accuracy").locator(".curve").evaluate_all(of)
    assert len({tuple(one) for one in found}) == 6 and len({colour for _, colour in found}) == 3
    opened.page.mouse.move(*x_of(opened, "accuracy", 0.5))
    tip = opened.chart("accuracy").locator(".tip").inner_text()
    assert "fedorbit, pathological" in tip and "fedavg, dirichlet" in tip
    opened.page.locator("button.toggle", has_text="fedavg").click()
    assert opened.chart("accuracy").locator(".curve").count() == 4
    opened.page.locator("#hours").click()
    assert "simulated hours" in texts(opened, "accuracy")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 1200
    assert opened.complaints == []


def test_settings_of_one_method_have_their_own_colours(browser, tmp_path: Path) -> None:
    for scheme in ("dirichlet", "pathological"):
        write_run(tmp_path / "runs" / scheme, {"fedavg": 50.0}, partition={"scheme": scheme})
    file = write_page(tmp_path / "page.html", compare(read_runs([tmp_path / "runs"])))
    opened = Opened(browser, file)
    opened.page.select_option("#setting", label="all together")
    of = "(curves) => curves.map((curve) => getComputedStyle(curve).stroke)"
    assert len(set(opened.chart("accuracy").locator(".curve").evaluate_all(of))) == 2
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


def test_a_chosen_theme_is_kept_until_it_is_that_of_the_system(browser, file: Path) -> None:
    opened = Opened(browser, file)
    for name, colour in (("Dark", "rgb(18, 23, 29)"), ("Light", "rgb(255, 255, 255)")):
        opened.page.get_by_role("button", name=name, exact=True).click()
        assert background(opened) == colour
        opened.page.reload()
        assert background(opened) == colour
    assert opened.page.evaluate("localStorage.length") == 0
    assert opened.complaints == []


def test_a_browser_that_stores_nothing_has_both_themes(browser, file: Path) -> None:
    opened = Opened(browser, file)
    refuse = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })"
    opened.page.add_init_script(refuse)
    opened.page.reload()
    opened.page.locator("#theme").click()
    assert background(opened) == "rgb(18, 23, 29)"
    assert opened.complaints == []


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
    assert opened.page.locator("#hours").get_attribute("aria-pressed") == "true"
    assert opened.chart("accuracy").locator(".curve").count() == 2
    # The main chart is as wide as the page, the others stand in pairs where there is room.
    widths = [opened.chart(name).bounding_box()["width"] for name in ("accuracy", "staleness")]
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
    assert data.locator("tbody tr").last.inner_text().split() == ["11", "1.0", "15.0", "±", "0.0"]
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.complaints == []
    assert opened.requests == [file.as_uri()]
    save_screenshot(opened, tmp_path, f"notes-{width}")


def test_a_confusion_matrix_of_a_method_and_orbit(browser, file: Path) -> None:
    """Two seeds: of 4 fields in orbit 0 two are right, of 8 towns in orbit 1 six."""
    opened = Opened(browser, file)
    figure = opened.page.locator('section.setting:visible figure[data-chart="confusion"]')

    view = opened.page.locator("section.setting:visible .class-view")

    def cells() -> list[str]:
        return figure.locator("rect title").all_text_contents()

    def choose(picker: str, label: str) -> None:
        view.locator(f"select.{picker}").select_option(label=label)

    assert cells()[2:] == [
        f"town taken for {EVIL}: 2 of 8 (25.0 %)",
        "town taken for town: 6 of 8 (75.0 %)",
    ]
    figure.locator("summary").click()
    listed = figure.locator("table").nth(1)  # of fedorbit, after fedavg
    assert listed.locator("thead th").all_text_contents() == ["true class", EVIL, "town"]
    rows = [row.locator("th, td").all_text_contents() for row in listed.locator("tbody tr").all()]
    assert rows == [[EVIL, "2", "2"], ["town", "2", "6"]]
    choose("confusion-method", "fedavg")
    choose("confusion-orbit", "0")
    assert cells() == [
        f"{EVIL} taken for {EVIL}: 2 of 4 (50.0 %)",
        f"{EVIL} taken for town: 2 of 4 (50.0 %)",
    ]
    choose("confusion-orbit", "2")
    assert "No test sample" in figure.locator(".plot").text_content()
    assert opened.complaints == []


def test_classes_are_shown_per_orbit(browser, file: Path) -> None:
    """Of two seeds: orbit 0 takes 2 of 4 fields for town, orbit 1 takes 2 of 8 towns for field."""
    opened = Opened(browser, file)
    view = opened.page.locator("section.setting:visible .class-view")
    cells = view.locator('figure[data-chart="per-class"] rect title')
    assert cells.all_text_contents() == [
        f"{EVIL}, all orbits: accuracy 50.0 % (4 samples)",
        f"{EVIL}, orbit 0: accuracy 50.0 % (4 samples)",
        "town, all orbits: accuracy 75.0 % (8 samples)",
        "town, orbit 1: accuracy 75.0 % (8 samples)",
    ]
    view.locator("select.class-measure").select_option("f1")
    # F1 is 2 tp / (samples + predictions): 4 / (4 + 4), 4 / (4 + 2), 0 / (0 + 2) and so on.
    assert [text.partition(": ")[2] for text in cells.all_text_contents()] == [
        "F1 50.0 % (4 samples)", "F1 66.7 % (4 samples)", "F1 0.0 % (0 samples)",
        "F1 75.0 % (8 samples)", "F1 0.0 % (0 samples)", "F1 85.7 % (8 samples)",
    ]  # fmt: skip
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


def test_the_top_tick_of_percentages_has_their_unit(browser, file: Path) -> None:
    opened = Opened(browser, file)
    opened.page.locator("#full-scale").click()
    for name in ("accuracy", "samples", "bytes", "orbits"):
        marks = [text for text in texts(opened, name) if text.endswith(" %")]
        assert marks == ["100 %"], name
    assert "100" in texts(opened, "spread")  # points


def test_the_lowest_curve_is_above_the_strip_of_contacts(browser, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"fedavg": 0.0}, setting=world())
    opened = Opened(browser, write_page(tmp_path / "page.html", compare(read_runs([run]))))
    bottom = "(parts) => Math.max(...parts.map((part) => part.getBoundingClientRect().bottom))"
    top = "(parts) => Math.max(...parts.map((part) => part.getBoundingClientRect().top))"
    plot = opened.chart("accuracy")
    strip = plot.locator(".shade rect").evaluate_all(top)
    assert plot.locator(".curve").evaluate_all(bottom) <= strip - 2


# --- Looking closer -------------------------------------------------------------------------------


@pytest.fixture
def rising(browser, tmp_path: Path) -> Opened:
    """Two methods of 12 rounds of 5 minutes, from 40 % and 60 % up by 2 points per round."""
    run = write_run(tmp_path / "run", {"fedavg": 40.0, "fedorbit": 60.0}, setting=world(), rise=2.0)
    return Opened(browser, write_page(tmp_path / "page.html", compare(read_runs([run]))))


def texts(opened: Opened, name: str) -> list[str]:
    return opened.chart(name).locator("> svg > text").all_text_contents()


def x_of(opened: Opened, name: str, share: float) -> tuple[float, float]:
    """A point at a share of a chart's x axis, on the screen."""
    opened.chart(name).scroll_into_view_if_needed()
    axis = opened.chart(name).locator("line.axis").first.bounding_box()
    return axis["x"] + share * axis["width"], axis["y"] - 60


def drag(opened: Opened, name: str, begin: float, end: float) -> None:
    opened.page.mouse.move(*x_of(opened, name, begin))
    opened.page.mouse.down()
    opened.page.mouse.move(*x_of(opened, name, (begin + end) / 2))
    opened.page.mouse.move(*x_of(opened, name, end))
    assert opened.chart(name).locator(".picked").get_attribute("visibility") == "visible"
    opened.page.mouse.up()


def test_dragging_shows_a_part_of_all_charts_over_time(rising: Opened) -> None:
    """Rounds 3 to 6: accuracies 46 to 52 and 66 to 72 of 40 to 82."""
    whole = {name: texts(rising, name) for name in ("accuracy", "spread", "orbits", "timeline")}
    samples = texts(rising, "samples")
    assert {"0", "5", "10", "40", "80 %", "round"} <= set(whole["accuracy"])
    drag(rising, "accuracy", 6 / 12, 3 / 12)  # leftwards, too
    for name, before in whole.items():
        assert {"3", "4", "5", "6"} <= set(texts(rising, name)) != set(before), name
        assert not {"0", "2", "8", "10", "12"} & set(texts(rising, name)) - {"0"}, name
    axis = [float(text) for text in texts(rising, "accuracy") if text.isdigit()]
    assert min(v for v in axis if v > 6) >= 46 and max(axis) <= 72  # the y axis fits the part
    assert texts(rising, "samples") == samples  # another axis
    rising.page.locator("#full-scale").click()
    assert {"0", "100 %"} <= set(texts(rising, "accuracy"))
    rising.page.locator("#full-scale").click()
    rising.chart("spread").locator("button.show-all").click()
    assert {name: texts(rising, name) for name in whole} == whole
    assert rising.page.locator("button.show-all").count() == 0
    drag(rising, "samples", 0.0, 0.5)
    assert texts(rising, "samples") != samples
    assert texts(rising, "accuracy") == whole["accuracy"]
    rising.page.mouse.dblclick(*x_of(rising, "samples", 0.3))
    assert texts(rising, "samples") == samples
    assert rising.complaints == []


def test_a_click_is_not_a_drag(rising: Opened) -> None:
    before = texts(rising, "accuracy")
    rising.page.mouse.click(*x_of(rising, "accuracy", 0.4))
    assert texts(rising, "accuracy") == before


def test_pointing_gives_the_values_of_all_curves(rising: Opened) -> None:
    """At round 7, 54 and 74 %: highest first, each with a dot on its curve."""
    rising.page.mouse.move(*x_of(rising, "accuracy", 7.2 / 12))
    tip = rising.chart("accuracy").locator(".tip")
    assert tip.inner_text().split("\n") == ["round 7, 0.67 h", "fedorbit", "74.0", "fedavg", "54.0"]
    cross = rising.chart("accuracy").locator("line.cross").get_attribute("x1")
    dots = rising.chart("accuracy").locator("circle.at")
    assert [dot.get_attribute("cx") for dot in dots.all()] == [cross, cross]
    rising.page.locator("button.toggle", has_text="fedavg").click()
    rising.page.mouse.move(*x_of(rising, "accuracy", 7.2 / 12))
    assert "fedavg" not in tip.inner_text()
    rising.page.mouse.move(*x_of(rising, "timeline", 3.5 / 12))
    assert rising.chart("timeline").locator(".tip").inner_text().split("\n")[:2] == [
        "round 3", "orbit 1",
    ]  # fmt: skip
    rising.page.mouse.move(5, 5)
    assert tip.is_hidden()


def test_a_tap_shows_values_until_the_next(browser, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"fedavg": 40.0}, setting=world(), rise=2.0)
    file = write_page(tmp_path / "page.html", compare(read_runs([run])))
    opened = Opened(browser, file, width=390, has_touch=True)
    tip = opened.chart("accuracy").locator(".tip")
    for share, title in ((7.2 / 12, "round 7"), (3.1 / 12, "round 3")):
        opened.page.touchscreen.tap(*x_of(opened, "accuracy", share))
        assert tip.inner_text().startswith(title)
    opened.page.locator("#full-scale").tap()
    assert opened.complaints == []


def test_the_keyboard_looks_closer(rising: Opened) -> None:
    press = rising.page.keyboard.press
    plot = rising.chart("accuracy")
    before = texts(rising, "accuracy")
    plot.focus()
    for _ in range(7):  # the first is at round 0
        press("ArrowRight")
    tip = plot.locator(".tip")
    assert tip.inner_text().split("\n")[:3] == ["round 6, 0.58 h", "fedorbit", "72.0"]
    press("+")
    assert {"4", "6", "8"} < set(texts(rising, "accuracy"))  # rounds 3 to 9
    assert not {"0", "2", "10"} & set(texts(rising, "accuracy"))
    assert tip.inner_text().startswith("round 6")  # the crosshair stays
    for _ in range(5):
        press("ArrowRight")
    assert tip.inner_text().startswith("round 11")
    assert {"6", "8", "10"} < set(texts(rising, "accuracy"))  # what is shown follows it
    assert "4" not in texts(rising, "accuracy")
    press("-")
    assert texts(rising, "accuracy") == before
    press("+")
    press("Escape")
    assert texts(rising, "accuracy") == before
    press("Tab")
    assert tip.is_hidden()
    assert rising.complaints == []


def test_rounds_or_hours(rising: Opened) -> None:
    """12 rounds of 5 minutes are an hour; the part that is shown stays."""
    hours = rising.page.locator("#hours")
    assert hours.get_attribute("aria-pressed") == "false"
    drag(rising, "accuracy", 3 / 12, 6 / 12)
    hours.click()
    for name in ("accuracy", "spread", "orbits", "timeline"):
        assert "simulated hours" in texts(rising, name), name
        assert {"0.3", "0.4", "0.5"} <= set(texts(rising, name)), name
        assert not {"0.2", "0.6", "0.8"} & set(texts(rising, name)), name
    rising.page.mouse.move(*x_of(rising, "accuracy", 0.99))
    # Half an hour: the end of round 5.
    assert rising.chart("accuracy").locator(".tip").inner_text().startswith("round 5, 0.5 h")
    hours.click()
    assert {"3", "6", "round"} <= set(texts(rising, "accuracy"))
    assert rising.complaints == []


def test_communication_over_all_links_or_with_the_ground(rising: Opened) -> None:
    """By record: 550 bytes per round, 150 of them with the ground."""
    figure = rising.page.locator('figure[data-chart="bytes"]')
    assert "bytes over all links" in texts(rising, "bytes")
    rising.page.mouse.move(*x_of(rising, "bytes", 0.98))
    assert rising.chart("bytes").locator(".tip").inner_text().startswith("6.6 k bytes")
    figure.locator("select").select_option("links with the ground")
    assert "bytes over links with the ground" in texts(rising, "bytes")
    rising.page.mouse.move(*x_of(rising, "bytes", 0.98))
    assert rising.chart("bytes").locator(".tip").inner_text().startswith("1.8 k bytes")
    figure.locator("summary").click()
    ends = [table.locator("tbody tr").last for table in figure.locator("table").all()]
    assert [end.locator("th").inner_text() for end in ends] == ["6,600", "1,800"]
    assert rising.complaints == []


def test_relayed_contacts_are_light(browser, tmp_path: Path) -> None:
    """Orbit 0 is reached in rounds 0, 1 and 6, and the station sees it in the first two."""
    physical = {"rounds": 12, "method": ["fedavg"], "links": "physical"}
    run = write_run(tmp_path / "run", {"fedavg": 50.0}, setting=linked_world(), run=physical,
                    network={"isl": "line-of-sight"})  # fmt: skip
    opened = Opened(browser, write_page(tmp_path / "page.html", compare(read_runs([run]))))
    lanes = opened.chart("timeline")
    assert (
        lanes.locator(".relayed rect").count() == 3 and lanes.locator(".direct rect").count() == 1
    )
    for t, how in ((1, "direct"), (6, "relayed")):
        opened.page.mouse.move(*x_of(opened, "timeline", (t + 0.5) / 12))
        assert lanes.locator(".tip").inner_text().split("\n") == [f"round {t}", "orbit 0", how]
    assert opened.complaints == []


def test_lanes_of_many_orbits_have_one_colour(browser, tmp_path: Path) -> None:
    for orbits, colours in ((11, 7), (12, 1)):
        counts = {"orbit_class_counts": [[1, 1]] * orbits, "test_class_counts": [[1, 1]] * orbits}
        setting = {**world(), **counts, "visible": [[[0, 2]]] * orbits, "similarity": None}
        run = write_run(tmp_path / f"{orbits}", {"fedavg": 50.0}, setting=setting)
        file = write_page(tmp_path / f"{orbits}.html", compare(read_runs([run])))
        groups = Opened(browser, file).chart("timeline").locator("g.window")
        assert groups.count() == orbits
        assert len({group.get_attribute("class") for group in groups.all()}) == colours


def test_transfers_are_a_matrix(browser, tmp_path: Path) -> None:
    """Of two seeds; the one station is London, and -1 the ground as a whole."""
    for seed, size in ((0, 1000), (1, 3000)):
        rows = [[0, 3, 2, 2 * size], [3, 1, 1, size], [2, -1, 4, 400]]
        write_run(tmp_path / "runs" / f"{seed}", {"fedavg": 50.0, "fedorbit": 60.0}, seed=seed,
                  setting=world(), transfers=rows)  # fmt: skip
    file = write_page(tmp_path / "page.html", compare(read_runs([tmp_path / "runs"])))
    opened = Opened(browser, file)
    figure = opened.page.locator('figure[data-chart="transfers"]')
    found = figure.locator("rect title").all_text_contents()
    assert len(found) == 5 * 5
    assert [text for text in found if not text.endswith("none")] == [
        "orbit 0 to London: 2 messages, 4 kB",
        "orbit 2 to the ground: 4 messages, 400 B",
        "London to orbit 1: 1 messages, 2 kB",
    ]
    figure.locator("select.transfers-measure").select_option("messages")
    assert {"1", "2", "4"} <= set(figure.locator("svg text").all_text_contents())
    table = figure.locator("tbody tr").first
    assert table.locator("th, td").all_text_contents() == [
        "fedavg", "orbit 0", "London", "2", "4.00 kB",
    ]  # fmt: skip
    assert opened.complaints == []
