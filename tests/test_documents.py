"""Documents of any origin: bounded before they are parsed."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from fedorbit import documents
from fedorbit.documents import DocumentError, parse_json, parse_toml, read_json, read_lines

ANY: TypeAdapter[object] = TypeAdapter(object)
NUMBERS: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, int])


@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "a = 1",  # which would take gigabytes to parse
        "[" + "a . " * 60 + "b]",
        '"a".' * 60 + "b = 1",
        "x = {" + "'a'." * 60 + "b = 1}",
        "x = " + "[" * 60 + "]" * 60,
        "x = " + "[" * 1500 + "]" * 1500,
    ],
)
def test_deep_toml_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match="nested more than 40 levels"):
        parse_toml(text)


def test_what_only_looks_deep_is_read() -> None:
    numbers = ", ".join(["0.5"] * 1000)
    assert len(parse_toml(f"x = [{numbers}]")["x"]) == 1000
    assert parse_toml('x = "a.b' + ".c" * 30 + '"')["x"].startswith("a.b")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": "x"}', "a: input should be a valid integer.*, got 'x'"),
        (b'{"a": [1]}', "a: input should be a valid integer, got list"),
        (b"[]", "the whole document: input should be a valid dictionary, got list"),
        (b"[" * 50 + b"]" * 50, "nested more than 40 levels"),
        (b"\xff", "utf-8"),
    ],
)
def test_other_json_is_refused_by_a_reason(content: bytes, why: str) -> None:
    with pytest.raises(DocumentError, match=why):
        parse_json(content, NUMBERS)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.json"
    path.write_text('{"a": 1}')
    assert read_json(path, ANY, 8) == {"a": 1}
    with pytest.raises(DocumentError, match="has 8 bytes, allowed are 7"):
        read_json(path, ANY, 7)
    path.write_bytes(b"12\n345\n67")
    assert list(read_lines(path)) == [b"12", b"345"]  # the last one was cut
    assert list(read_lines(path, 3)) == [b"12"]
    monkeypatch.setattr(documents, "MOST_BYTES", 3)
    with pytest.raises(DocumentError, match="a line has more than 3 bytes"):
        list(read_lines(path))
