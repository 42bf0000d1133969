"""The page: one HTML file that needs nothing else, neither a network nor a server."""

import base64
import hashlib
from importlib import resources
from pathlib import Path

from fedorbit import __version__
from fedorbit.files import replacing
from fedorbit.report import sections, wording
from fedorbit.report.charts import setting_section, together_section
from fedorbit.report.document import page_document
from fedorbit.report.markup import Html, embedded_json, joined, tag
from fedorbit.report.replicates import Comparison

SCRIPTS = (
    "theme.js", "svg.js", "zoom.js", "lines.js", "matrices.js", "map.js", "classes.js",
    "figures.js", "page.js",
)  # fmt: skip
"""Scripts in the order in which they must run, as one script or as several."""
STYLE = "page.css"


def write_page(path: Path, comparison: Comparison) -> Path:
    """Write the page of a comparison."""
    with replacing(path) as partial:
        partial.write_text(build_page(comparison), encoding="utf-8")
    return path


def build_page(comparison: Comparison) -> Html:
    """Return the whole page."""
    script = Html("\n".join(_asset(name) for name in SCRIPTS))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"fedorbit {__version__}"),
        tag("title", wording.title(comparison)),
        tag("style", Html(_asset(STYLE))),
    )
    body = tag("body", *content(comparison), tag("script", script))
    return joined([Html("<!doctype html>\n"), tag("html", head, body, lang="en"), "\n"])


def content(comparison: Comparison) -> list[Html]:
    """Return what stands in the page's body, but for the scripts that draw the charts."""
    document = page_document(comparison)
    main = tag(
        "main",
        sections.notes(comparison),
        sections.headline(comparison),
        sections.toolbar(comparison),
        *(
            setting_section(number, setting, shown)
            for number, (setting, shown) in enumerate(
                zip(comparison.settings, document["settings"], strict=True)
            )
        ),
        together_section(len(comparison.settings)) if comparison.fits_one_chart else None,
        sections.provenance(comparison),
    )
    title = wording.title(comparison)
    return [
        tag(
            "header",
            tag("div", tag("h1", title), tag("p", wording.summary_line(comparison), class_="lead")),
            theme_button(),
            class_="top",
        ),
        main,
        tag("footer", f"Made by fedorbit {__version__} from the record files of the runs above."),
        tag("script", embedded_json(document), type="application/json", id="report-data"),
    ]


def theme_button() -> Html:
    """Return the button that a page's script shows and gives its text."""
    return tag("button", "Dark", id="theme", type="button", hidden=True, title="Light or dark")


def _policy(script: str) -> str:
    """Allow this very script and nothing from anywhere: the page cannot reach a network."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _asset(name: str) -> str:
    return (resources.files("fedorbit.report") / "assets" / name).read_text("utf-8")
