"""HTML that cannot be broken into: every text is escaped unless it was built here."""

import json
from collections.abc import Iterable
from html import escape
from typing import Any

VOID = ("meta", "input")


class Html(str):
    """Markup that is safe to put into a page as it is."""


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Build an element; `class_` is class, `data_x` is data-x, True is a bare attribute."""
    parts = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name_of = key.rstrip("_").replace("_", "-")
        parts.append(f" {name_of}" if value is True else f' {name_of}="{escape(str(value))}"')
    opened = f"<{name}{''.join(parts)}>"
    return Html(opened if name in VOID else f"{opened}{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Html:
    """Put pieces one after the other; texts are escaped, None is nothing."""
    return Html(
        "".join(
            str(child) if isinstance(child, Html) else escape(str(child))
            for child in children
            if child is not None
        )
    )


def table(
    head: Iterable[object],
    rows: Iterable[Iterable[object]],
    caption: str,
    class_: str | None = None,
) -> Html:
    """Build a table whose first column names the row; it scrolls by itself where it is too wide."""
    body = []
    for first, *others in rows:
        cells = (tag("td", cell) for cell in others)
        body.append(tag("tr", tag("th", first, scope="row"), *cells))
    return scrolling(
        tag(
            "table",
            tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))),
            tag("tbody", *body),
            class_=class_,
            aria_label=caption,
        ),
        caption,
    )


def scrolling(content: Html, caption: str) -> Html:
    """Wrap content so that it scrolls sideways, with the keyboard too."""
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=caption)


def embedded_json(value: Any) -> Html:
    """Return JSON that stays JSON inside a script element, whatever its strings hold."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)
