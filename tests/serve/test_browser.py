"""The live page in a real browser, with a server in another process.

A screenshot of each look lands in pytest's output folder, or in FEDORBIT_SCREENSHOTS if that is set.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urljoin

import pytest

from fedorbit.config import load_config
from tests.patience import PATIENCE_S, wait_until
from tests.report import run_folders as by_hand
from tests.report.test_browser import CHROMIUM
from tests.report.test_browser import FLAGS as REPORT_FLAGS
from tests.serve.command import Served, serving
from tests.serve.run_folders import add_rounds, write_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("starlette", reason="the extra serve is not installed")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine; scripts/install-chromium.sh installs it"
)
FLAGS = [flag for flag in REPORT_FLAGS if flag != "--disable-gpu"]
SOFTWARE = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
EVIL = "<img src=x onerror=alert(1)>"


class Opened:
    """A page in a browser, with everything that it said and asked for."""

    def __init__(
        self, browser, served: Served, target: str, width: int = 1200, scheme: str = "light",
        has_touch: bool = False,
    ) -> None:  # fmt: skip
        self.served = served
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
        self.page.goto(urljoin(served.address, target))

    def wait_for(self, expression: str) -> None:
        # Not wait_for_function, whose eval inside of the page the page's policy refuses.
        wait_until(lambda: self.page.evaluate(expression))

    def is_fine(self) -> bool:
        """Check that no request was refused or failed, and none went to another server."""
        assert self.complaints == []
        assert all(url.startswith(self.served.address) for url in self.requests)
        return True

    def save(self, tmp_path: Path, name: str) -> None:
        folder = Path(os.environ.get("FEDORBIT_SCREENSHOTS", tmp_path))
        self.page.screenshot(path=folder / f"serve-{name}.png")


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *SOFTWARE])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    for name, accuracy in (("first", 50.0), ("second", 60.0)):
        seed = int(name == "second")
        run = write_run(root / name, ("fedavg", "fedorbit"), seed=seed)
        add_rounds(run, [accuracy, accuracy + 5.0])
        add_rounds(run, [accuracy + 8.0, accuracy + 9.0], "fedorbit")
    by_hand.write_run(root / EVIL, {EVIL: 30.0}, setting=by_hand.world(station=EVIL))
    shell = load_config("starlink-shell1").model_dump(mode="json")
    run = write_run(
        root / "shell",
        constellation=shell["constellation"],
        stations=shell["stations"],
        network={"isl": "line-of-sight", "max_range_km": 2000.0, "terminals": 4},
    )
    add_rounds(run, [30.0, 45.0, 60.0], orbits=72)
    return root


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serving(folder) as found:
        yield found


def test_ticked_runs_are_compared(browser, served: Served, tmp_path: Path) -> None:
    opened = Opened(browser, served, "/")
    page = opened.page
    opened.save(tmp_path, "list")
    button = page.locator("form button")
    assert button.is_disabled() and button.inner_text() == "Compare"
    for name, text in (("first", "Compare 1 run"), ("second", "Compare 2 runs")):
        page.get_by_label(f"Compare {name}").check()
        assert button.inner_text() == text
    button.click()
    page.wait_for_url("**/runs?name=first&name=second")
    for name in ("accuracy", "spread", "orbits", "timeline", "map", "classes", "similarity"):
        drawn = page.locator(f'figure[data-chart="{name}"] .plot svg :is(path, rect, circle)')
        assert drawn.count() >= 3, name
    accuracy = page.locator('figure[data-chart="accuracy"]').first
    assert accuracy.locator(".band").count() == 2  # two methods of two seeds
    filled = page.locator('figure[data-chart="similarity"] rect').first
    assert filled.evaluate("rect => getComputedStyle(rect).fill") != "rgb(0, 0, 0)"
    assert opened.is_fine()
    opened.save(tmp_path, "light")


def test_a_run_is_followed_without_losing_what_was_chosen(
    browser, served: Served, folder: Path
) -> None:
    run = write_run(folder / "followed", ("fedavg", "fedorbit"))
    add_rounds(run, [40.0, 42.0])
    add_rounds(run, [50.0], "fedorbit")
    opened = Opened(browser, served, "/runs?name=followed")
    page = opened.page
    opened.wait_for("document.getElementById('live').textContent === 'live'")
    page.locator("button.toggle", has_text="fedorbit").click()
    details = page.locator('figure[data-chart="accuracy"] details').first
    details.locator("summary").click()
    assert details.locator("tbody tr").count() == 2
    page.locator("#hours").click()
    plot = page.locator('figure[data-chart="accuracy"] .plot').first
    plot.focus()
    page.keyboard.press("+")
    shown = plot.locator("> svg > text").all_text_contents()
    page.evaluate("window.isTheSamePage = true")
    add_rounds(run, [90.0, 92.0])
    opened.wait_for(
        "document.querySelectorAll('figure[data-chart=accuracy] tbody tr').length === 4"
    )
    assert page.evaluate("window.isTheSamePage") is True
    assert (
        "66.0" in page.locator('#headline tr[data-series="fedavg"]').inner_text()
    )  # of 40, 42, 90, 92
    assert page.locator('figure[data-chart="accuracy"] g[data-series]').count() == 1
    assert details.get_attribute("open") is not None
    # Still hours, and still the same part of them: only y axes fit the new values.
    assert plot.locator("button.show-all").count() == 1
    x_texts = [text for text in shown if "." in text or text == "simulated hours"]
    assert len(x_texts) > 2 and set(x_texts) <= set(
        plot.locator("> svg > text").all_text_contents()
    )
    assert opened.is_fine()


def test_an_update_keeps_focus_what_is_open_and_where_a_table_was_scrolled(
    browser, served: Served, folder: Path
) -> None:
    run = write_run(folder / "read", ("fedavg", "fedorbit"), rounds=30)
    add_rounds(run, [40.0] * 24)
    opened = Opened(browser, served, "/runs?name=read")
    page = opened.page
    opened.wait_for("document.getElementById('live').textContent === 'live'")
    data = page.locator('figure[data-chart="accuracy"] details').first
    data.locator("summary").click()
    data.locator(".scroll").evaluate("(table) => { table.scrollTop = 120; }")
    configuration = page.locator("main > section:not(.setting) > details").first
    configuration.locator("summary").focus()
    page.keyboard.press("Enter")
    add_rounds(run, [90.0])
    opened.wait_for(
        "document.querySelectorAll('figure[data-chart=accuracy] tbody tr').length === 25"
    )
    assert data.locator(".scroll").evaluate("(table) => table.scrollTop") == 120
    assert configuration.get_attribute("open") is not None
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == configuration.locator("summary").inner_text()
    assert opened.is_fine()


def test_a_page_with_further_charts_keeps_what_was_chosen(
    browser, served: Served, folder: Path
) -> None:
    add_rounds(write_run(folder / "grown" / "1", ("fedavg", "fedorbit")), [40.0, 42.0])
    opened = Opened(browser, served, "/runs?name=grown")
    page, toggles = opened.page, opened.page.locator("button.toggle")
    opened.wait_for("document.getElementById('live').textContent === 'live'")
    toggles.filter(has_text="fedavg").click()
    page.locator("#full-scale").click()
    add_rounds(write_run(folder / "grown" / "2", ("fedprox",)), [30.0, 31.0], "fedprox")
    toggles.filter(has_text="fedprox").wait_for()
    opened.wait_for("document.getElementById('full-scale').ariaPressed === 'true'")
    pressed = {b.inner_text(): b.get_attribute("aria-pressed") for b in toggles.all()}
    assert pressed == {"fedavg": "false", "fedorbit": "true", "fedprox": "true"}
    assert opened.is_fine()


def test_an_update_waits_until_a_drag_has_ended(browser, served: Served, folder: Path) -> None:
    run = write_run(folder / "dragged")
    add_rounds(run, [40.0, 42.0, 44.0, 46.0])
    opened = Opened(browser, served, "/runs?name=dragged")
    page = opened.page
    opened.wait_for("document.getElementById('live').textContent === 'live'")
    plot = page.locator('figure[data-chart="accuracy"] .plot').first
    plot.scroll_into_view_if_needed()
    axis = plot.locator("line.axis").first.bounding_box()
    page.mouse.move(axis["x"] + 0.1 * axis["width"], axis["y"] - 60)
    page.mouse.down()
    page.mouse.move(axis["x"] + 0.3 * axis["width"], axis["y"] - 60)
    with page.expect_response(lambda answer: answer.url == page.url) as answer:
        add_rounds(run, [90.0])
    answer.value.finished()
    page.wait_for_timeout(300)  # time in which the page must not change
    rows = plot.locator("xpath=..").locator("tbody tr")
    assert rows.count() == 4
    page.mouse.move(axis["x"] + 0.6 * axis["width"], axis["y"] - 60)
    page.mouse.up()
    assert plot.locator("button.show-all").count() == 1
    wait_until(lambda: rows.count() == 5)
    assert plot.locator("button.show-all").count() == 1
    assert opened.is_fine()


def test_a_page_follows_a_run_again_whose_folder_is_back(
    browser, served: Served, folder: Path, tmp_path: Path
) -> None:
    run = write_run(folder / "moved")
    add_rounds(run, [40.0])
    opened = Opened(browser, served, "/runs?name=moved")
    opened.wait_for("document.getElementById('live').textContent === 'live'")
    with opened.page.expect_response(lambda answer: answer.status == 404):
        run.rename(tmp_path / "elsewhere")
    opened.wait_for("document.getElementById('live').textContent.startsWith('no connection')")
    (tmp_path / "elsewhere").rename(run)
    add_rounds(run, [50.0])
    opened.wait_for(
        "document.querySelectorAll('figure[data-chart=accuracy] tbody tr').length === 2"
    )
    assert opened.page.locator("#live").inner_text() == "live"


def test_a_run_without_rounds_appears_once_it_has_one(
    browser, served: Served, folder: Path
) -> None:
    run = write_run(folder / "waiting")
    opened = Opened(browser, served, "/runs?name=waiting")
    assert "no round is recorded yet" in opened.page.get_by_role("alert").inner_text()
    add_rounds(run, [40.0])
    opened.page.locator('figure[data-chart="accuracy"] svg').first.wait_for()
    # The browser itself reports the first answer, 409.
    assert [text for text in opened.complaints if "409" not in text] == []


def test_the_list_takes_in_new_runs(browser, served: Served, folder: Path) -> None:
    opened = Opened(browser, served, "/")
    opened.page.get_by_label("Compare first").check()
    write_run(folder / "another")
    opened.page.get_by_label("Compare another").wait_for()
    assert opened.page.get_by_label("Compare first").is_checked()
    assert opened.page.locator("form button").inner_text() == "Compare 1 run"
    assert opened.is_fine()


def test_a_globe_of_1584_satellites(browser, served: Served, folder: Path, tmp_path: Path) -> None:
    """All satellites and five stations are drawn, and as many links as the plan has at a moment."""
    opened = Opened(browser, served, "/globe?name=shell")
    page = opened.page
    plan = json.loads((folder / "shell" / "world.json").read_text())["contacts"]

    def links_at(time_s: float) -> int:
        ends = zip(plan["begin_s"], plan["end_s"], strict=True)
        return sum(begin <= time_s < end for begin, end in ends)

    canvas = page.locator("#globe")
    opened.wait_for("document.getElementById('globe').dataset.points === '1589'")
    # At first it shows the newest round, of three.
    assert page.locator("#state").inner_text().startswith("Round 2, 0 h 12 min")
    assert "Mean accuracy of orbits: 45.0 %" in page.locator("#state").inner_text()
    page.locator("#time").fill("0")
    opened.wait_for("document.getElementById('state').textContent.includes('not known yet')")
    assert canvas.get_attribute("data-lines") == str(links_at(0.0))
    before = canvas.screenshot()
    page.locator("#time").fill("1110")
    opened.wait_for("document.getElementById('state').textContent.startsWith('Round 3')")
    assert canvas.get_attribute("data-lines") == str(links_at(1110.0)) != str(links_at(0.0))
    assert "0 h 18 min" in page.locator("#state").inner_text()
    assert "Mean accuracy of orbits: 60.0 %" in page.locator("#state").inner_text()
    assert len(_colours(before)) > 20  # land, sea, links, satellites
    orange = {
        colour for colour in _colours(canvas.screenshot()) if colour[0] > 200 and colour[2] < 120
    }
    assert orange  # orbits that are better than others
    assert not {colour for colour in _colours(before) if colour[0] > 200 and colour[2] < 120}
    assert opened.is_fine()
    opened.save(tmp_path, "globe")


def test_a_satellite_that_is_pointed_at_is_named(browser, served: Served) -> None:
    opened = Opened(browser, served, "/globe?name=shell")
    opened.wait_for("document.getElementById('globe').dataset.points === '1589'")
    about = json.loads(served.ask("/globe/about?name=shell")[2])
    opened.page.locator("#time").fill("1110")
    opened.wait_for("document.getElementById('state').textContent.startsWith('Round 3')")
    box, label = opened.page.locator("#globe").bounding_box(), opened.page.locator("#label")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    named = set()
    for step in range(-20, 20):
        opened.page.mouse.move(x + 8 * step, y)
        if label.is_visible():
            named.add(label.inner_text())
    assert named
    for text in named:  # orbits are from 50 % to 70 %
        name, orbit, accuracy = re.fullmatch(r"(.+), orbit (\d+): (.+) %", text).groups()
        assert about["orbit_of_satellite"][about["satellites"].index(name)] == int(orbit)
        assert float(accuracy) == pytest.approx(50.0 + 20.0 * int(orbit) / 71, abs=0.051)
    assert opened.is_fine()


def test_a_tap_names_a_satellite(browser, served: Served) -> None:
    opened = Opened(browser, served, "/globe?name=shell", has_touch=True)
    opened.wait_for("document.getElementById('globe').dataset.points === '1589'")
    box, label = opened.page.locator("#globe").bounding_box(), opened.page.locator("#label")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    named = set()
    for step in range(-10, 10):
        opened.page.touchscreen.tap(x + 8 * step, y)
        if label.is_visible():
            named.add(label.inner_text())
    assert named and all(re.fullmatch(r".+, orbit \d+: .+", text) for text in named)
    assert opened.is_fine()


def _colours(png: bytes) -> set[tuple[int, ...]]:
    from io import BytesIO

    from PIL import Image

    with Image.open(BytesIO(png)) as image:
        return {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}


def test_a_globe_plays_and_turns(browser, served: Served) -> None:
    opened = Opened(browser, served, "/globe?name=first")
    page = opened.page
    opened.wait_for("document.getElementById('globe').dataset.points === '13'")
    canvas = page.locator("#globe")
    before = canvas.screenshot()
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert canvas.screenshot() != before
    page.locator("#time").fill("0")
    page.locator("#speed").select_option("900")
    page.locator("#play").click()
    opened.wait_for("Number(document.getElementById('time').value) > 300")
    page.locator("#play").click()
    assert page.locator("#play").inner_text() == "Play"
    assert opened.is_fine()


def test_models_move_along_their_links(browser, served: Served, folder: Path) -> None:
    """Two are sent in the first minute, one of them by the other method; their dots are white."""
    run = write_run(folder / "moving", ("fedavg", "fedorbit"))
    add_rounds(run, [40.0], hops=[(10, 0, 12), (20, 5, 6), (200, 6, 5)])
    add_rounds(run, [50.0], "fedorbit", hops=[(30, 4, 12)])
    opened = Opened(browser, served, "/globe?name=moving")
    page, state = opened.page, opened.page.locator("#state")
    opened.wait_for("document.getElementById('globe').dataset.points === '13'")
    page.locator("#time").fill("40")
    opened.wait_for("document.getElementById('globe').dataset.models === '2'")
    assert "Messages shown of the last 1 min: 2." in state.inner_text()
    opened.wait_for("document.getElementById('globe').dataset.points === '13'")  # not counted
    page.locator("#time").fill("100")
    opened.wait_for("document.getElementById('globe').dataset.models === '0'")
    page.locator("#time").fill("40")
    page.locator("#method").select_option("fedorbit")
    opened.wait_for("document.getElementById('globe').dataset.models === '1'")
    add_rounds(run, [55.0], "fedorbit", hops=[(35, 4, 12)])  # the run goes on
    opened.wait_for("document.getElementById('globe').dataset.models === '2'")
    assert opened.is_fine()


def test_footprints_and_orbits_are_circles(browser, served: Served) -> None:
    opened = Opened(browser, served, "/globe?name=first")
    canvas = opened.page.locator("#globe")
    opened.wait_for("document.getElementById('globe').dataset.circles === '15'")  # 3 + 12
    with_footprints = canvas.screenshot()
    opened.page.locator("#footprints").uncheck()
    opened.wait_for("document.getElementById('globe').dataset.circles === '3'")
    assert canvas.screenshot() != with_footprints
    # Of a large constellation only those of satellites in contact; 72 circles would hide it.
    opened = Opened(browser, served, "/globe?name=shell")
    opened.wait_for("Number(document.getElementById('globe').dataset.circles) > 0")
    circles = int(opened.page.locator("#globe").get_attribute("data-circles"))
    ground = re.search(r"Open links: (\d+) with", opened.page.locator("#state").inner_text())
    assert circles <= min(int(ground[1]), 100)
    assert opened.is_fine()


def test_a_globe_that_stands_still_asks_for_no_frames(browser, served: Served) -> None:
    """Also after it was turned and has become sharp again; a turn is drawn with the same satellites."""
    opened = Opened(browser, served, "/globe?name=first")
    page, canvas = opened.page, opened.page.locator("#globe")
    opened.wait_for("document.getElementById('globe').dataset.points === '13'")
    page.evaluate(
        "() => { window.frames_asked = 0; window.ask = requestAnimationFrame.bind(window);"
        " window.requestAnimationFrame = (draw) => { frames_asked += 1; return ask(draw); }; }"
    )
    ten_frames = (
        "() => new Promise((done) => { let n = 0;"
        " const next = () => (++n > 10 ? done() : ask(next)); next(); })"
    )
    page.evaluate(ten_frames)
    first = page.evaluate("frames_asked")
    page.evaluate(ten_frames)
    assert page.evaluate("frames_asked") == first <= 1
    before = canvas.screenshot()
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.evaluate(ten_frames)
    assert page.evaluate("frames_asked") == first + 1
    assert canvas.screenshot() != before
    assert opened.is_fine()


def test_a_globe_follows_its_run(browser, served: Served, folder: Path) -> None:
    run = write_run(folder / "in-space")
    add_rounds(run, [40.0])
    opened = Opened(browser, served, "/globe?name=in-space")
    opened.wait_for("document.getElementById('globe').dataset.points === '13'")
    opened.page.locator("#follow").check()
    opened.wait_for("document.getElementById('time').value === '300'")
    add_rounds(run, [50.0, 70.0])
    opened.wait_for("document.getElementById('time').value === '900'")
    opened.wait_for("document.getElementById('state').textContent.includes('70.0 %')")
    assert opened.is_fine()


def test_a_globe_follows_the_method_that_is_training(browser, served: Served, folder: Path) -> None:
    run = write_run(folder / "one-by-one", ("fedavg", "fedorbit"))
    add_rounds(run, [40.0, 41.0])
    opened = Opened(browser, served, "/globe?name=one-by-one")
    opened.wait_for("document.getElementById('globe').dataset.points === '13'")
    opened.page.locator("#follow").check()
    opened.wait_for("document.getElementById('time').value === '600'")
    add_rounds(run, [50.0], "fedorbit")
    opened.wait_for("document.getElementById('method').value === 'fedorbit'")
    opened.wait_for("document.getElementById('time').value === '300'")
    opened.wait_for("document.getElementById('state').textContent.includes('50.0 %')")
    opened.page.locator("#time").fill("0")  # a moment that is chosen ends it
    assert not opened.page.locator("#follow").is_checked()
    assert opened.is_fine()


@pytest.mark.parametrize("target", ["/", f"/runs?name={quote(EVIL)}"])
def test_a_strangers_names_do_nothing(browser, served: Served, target: str) -> None:
    opened = Opened(browser, served, target)
    assert EVIL in opened.page.locator("main").inner_text()
    assert opened.page.locator("img").count() == 0
    assert opened.is_fine()


@pytest.mark.parametrize("target", ["/", "/runs?name=first", "/globe?name=first"])
def test_a_phone_needs_no_sideways_scrolling(
    browser, served: Served, target: str, tmp_path: Path
) -> None:
    opened = Opened(browser, served, target, width=360)
    opened.wait_for("document.getElementById('live').textContent === 'live'")
    if target.startswith("/globe"):
        opened.wait_for("document.getElementById('legend').childElementCount > 1")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 360
    opened.save(tmp_path, f"phone{target.split('?')[0].replace('/', '-')}")


@pytest.mark.parametrize(
    ("scheme", "colour"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(18, 23, 29)")]
)
def test_light_and_dark(browser, served: Served, scheme: str, colour: str, tmp_path: Path) -> None:
    opened = Opened(browser, served, "/runs?name=first&name=second", scheme=scheme)
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == colour
    opened.save(tmp_path, scheme)


def test_a_chosen_theme_holds_on_all_pages(browser, served: Served) -> None:
    opened = Opened(browser, served, "/")
    colour = "getComputedStyle(document.body).backgroundColor"
    opened.page.get_by_role("button", name="Dark", exact=True).click()
    for target in ("/", "/runs?name=first", "/globe?name=first", "/runs"):
        opened.page.goto(urljoin(served.address, target))
        assert opened.page.evaluate(colour) == "rgb(18, 23, 29)", target
        assert opened.page.get_by_role("button", name="Light", exact=True).is_visible()
    assert [text for text in opened.complaints if "400" not in text] == []  # without a name


def test_without_webgl_there_is_a_sentence(browser, served: Served) -> None:
    plain = browser.browser_type.launch(
        executable_path=CHROMIUM, args=[*FLAGS, "--disable-3d-apis"]
    )
    opened = Opened(plain, served, "/globe?name=first")
    opened.wait_for("document.getElementById('state').textContent.includes('no WebGL')")
    plain.close()


def test_a_page_notices_that_its_server_has_ended(browser, folder: Path) -> None:
    with serving(folder) as served:
        opened = Opened(browser, served, "/")
        opened.wait_for("document.getElementById('live').textContent === 'live'")
        assert served.stop(signal.SIGINT)[0] == 0
        opened.wait_for("document.getElementById('live').textContent.startsWith('no connection')")
