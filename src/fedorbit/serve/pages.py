"""The pages: a list of runs, runs compared as in a report, a run on a globe, errors."""

from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlencode

from fedorbit import __version__
from fedorbit.report import wording
from fedorbit.report.markup import Html, joined, scrolling, tag
from fedorbit.report.page import SCRIPTS, STYLE, content, theme_button
from fedorbit.report.replicates import Comparison
from fedorbit.results.numbers import percent
from fedorbit.serve.catalog import Group, Listing, MethodState, RunState

PHASES = {
    "done": "finished",
    "running": "running",
    "interrupted": "interrupted",
    "waiting": "not begun",
}
COLUMNS = ("compare", "run", "method", "accuracy, %", "rounds", "state", "")
THEME = "theme.js"
MOST_GLOBES = 3
"""Links to globes above a comparison."""


def address(path: str, names: Iterable[str]) -> str:
    """Return the address of a page about some runs."""
    return f"{path}?{urlencode([('name', name) for name in names], quote_via=quote)}"


def page(
    title: str,
    body: Iterable[object],
    *,
    events: str | None,
    scripts: Sequence[str] = (),
    module: str | None = None,
) -> Html:
    """Return a page with the server's own style and scripts; `events` is what it listens to."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · fedorbit"),
        Html('<link rel="icon" href="/assets/icon.svg">'),
        *(Html(f'<link rel="stylesheet" href="/assets/{name}">') for name in (STYLE, "serve.css")),
        tag("script", src=f"/assets/{THEME}"),  # before anything is shown
    )
    named = [name for name in (*scripts, "live.js") if name != THEME]
    sources = [tag("script", src=f"/assets/{name}") for name in named]
    if module is not None:
        sources.append(tag("script", src=f"/assets/{module}", type="module"))
    built = tag("body", *body, *sources, data_events=events)
    return joined([Html("<!doctype html>\n"), tag("html", head, built, lang="en"), "\n"])


def list_page(listing: Listing, states: Sequence[RunState], folder: str, events: str) -> Html:
    """Build the list of all runs, with a choice of those to compare."""
    by_name = {state.name: state for state in states}
    tables = [_group(group, [by_name[name] for name in group.runs]) for group in listing.groups]
    nothing = tag(
        "p", "No run here yet; `fedorbit run` makes one, and it appears on this page by itself."
    )
    left_out = (
        f"{listing.left_out} more are not shown: beyond the limit of a list, or with a link or a "
        "name that is not UTF-8."
    )
    form = tag(
        "form",
        tag("div", tag("button", "Compare", type="submit"), class_="bar"),
        *tables,
        action="/runs",
        method="get",
    )
    main = tag(
        "main",
        form if tables else nothing,
        tag("p", left_out, class_="small") if listing.left_out else None,
    )
    return page("Runs", [_top("fedorbit", folder, ()), main, _footer()], events=events)


def runs_page(comparison: Comparison, names: Sequence[str], events: str) -> Html:
    """Build the report's page of some runs, live."""
    globes = [(f"Globe of {name}", address("/globe", [name])) for name in names[:MOST_GLOBES]]
    return page(
        wording.title(comparison),
        [_nav(globes), *content(comparison)],
        events=events,
        scripts=SCRIPTS,
    )


def globe_page(name: str, events: str) -> Html:
    """Build the page of a run on a globe; its script fetches what moves."""
    choice = tag("label", "Method ", tag("select", id="method"))
    follow = tag("label", tag("input", type="checkbox", id="follow"), " Follow the run")
    footprints = tag(
        "label", tag("input", type="checkbox", id="footprints", checked=True), " Footprints"
    )
    slider = tag(
        "div",
        tag("button", "Play", id="play", type="button"),
        tag("input", type="range", id="time", min=0, max=0, step=10, value=0, aria_label="Time"),
        tag(
            "label",
            "Speed ",
            tag("select", *(tag("option", f"{n} ×", value=n) for n in (60, 300, 900)), id="speed"),
        ),
        class_="slider",
    )
    main = tag(
        "main",
        tag("div", choice, follow, footprints, class_="bar"),
        tag(
            "div",
            tag("canvas", id="globe", tabindex="0", role="img", aria_label="Globe"),
            tag("div", id="label", class_="tip", hidden=True),
            id="scene",
        ),
        slider,
        tag("output", id="state", role="status"),
        tag("div", id="legend", class_="legend"),
        tag(
            "p",
            "Drag or use the arrow keys to turn, the wheel or + and - to come closer. Positions "
            "follow from the run's configuration, links from its contact plan, models from its "
            "records. Colours show the last accuracy of each orbit that was known at that moment. "
            "A footprint is the region from which a satellite is high enough for a link.",
            class_="small",
        ),
        data_name=name,
    )
    shown = [_top(name, "On a globe", [("Charts", address("/runs", [name]))]), main, _footer()]
    return page(name, shown, events=events, module="globe.js")


def problem_page(sentence: str, events: str | None = None) -> Html:
    """Build the page of something that cannot be shown; with events it looks again by itself."""
    main = tag("main", tag("p", sentence, class_="note", role="alert"))
    return page("Problem", [_top("This cannot be shown", "", ()), main, _footer()], events=events)


def _top(title: str, lead: str, links: Sequence[tuple[str, str]]) -> Html:
    named = tag("div", tag("h1", title), tag("p", lead, class_="lead"))
    return joined([_nav(links), tag("header", named, theme_button(), class_="top")])


def _nav(links: Sequence[tuple[str, str]]) -> Html:
    return tag(
        "nav",
        tag("a", "All runs", href="/"),
        *(tag("a", text, href=target) for text, target in links),
        tag("span", id="live", role="status"),
    )


def _footer() -> Html:
    return tag("footer", f"fedorbit {__version__}, from the files of the runs; nothing is changed.")


def _group(group: Group, states: Sequence[RunState]) -> Html:
    whole = tag("a", "compare all", href=address("/runs", [group.name]))
    name = group.title or ("Runs" if group.name == "." else group.name)
    where = tag("p", group.name, class_="small") if group.title else None
    heading = tag("h2", name, " ", whole if len(states) > 1 else None)
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in COLUMNS)))
    rows = [row for state in states for row in _rows(state)]
    built = tag("table", head, tag("tbody", *rows), aria_label=group.name, class_="runs")
    return tag("section", heading, where, scrolling(built, group.name))


def _rows(state: RunState) -> list[Html]:
    short = state.name.rpartition("/")[2]
    if state.error is not None:
        error = tag("td", state.error, colspan=len(COLUMNS) - 2, class_="error")
        return [tag("tr", tag("td"), tag("th", short, scope="row"), error)]
    box = tag(
        "input", type="checkbox", name="name", value=state.name, aria_label=f"Compare {state.name}"
    )
    link = tag("a", short, href=address("/runs", [state.name]))
    globe = tag("a", "globe", href=address("/globe", [state.name]))
    count = len(state.methods)
    rows = []
    for number, method in enumerate(state.methods):
        first = number == 0
        rows.append(
            tag(
                "tr",
                tag("td", box, rowspan=count) if first else None,
                tag("th", link, rowspan=count, scope="rowgroup") if first else None,
                *_cells(method, state.rounds),
                tag("td", globe, rowspan=count) if first else None,
            )
        )
    return rows


def _cells(method: MethodState, rounds: int) -> list[Html]:
    done = f"{method.rounds_done} of {rounds}"
    return [
        tag("td", method.method),
        tag("td", percent(method.accuracy)),
        tag("td", done),
        tag("td", PHASES[method.phase], class_=f"phase {method.phase}"),
    ]
