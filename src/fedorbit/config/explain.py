"""Validation errors as sentences: what is wrong, the value, what is allowed, the nearest key."""

import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from fedorbit.errors import closest

EXPECTED_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "string": "a text",
    "bool": "true or false",
    "datetime": "a date and time such as 2026-03-01T12:00:00Z",
    "path": "a path",
    "tuple": "a list",
    "model": "a table",
}

WRITTEN: dict[str, Any] = {"written": True}
"""`json_schema_extra` of a field that fedorbit writes and that messages do not offer to users."""

LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` when a candidate is near, else nothing."""
    near = closest(word, candidates)
    return f" (did you mean {near!r}?)" if near else ""


def explain(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return one sentence per error."""
    errors: list[dict[str, Any]] = [dict(e) for e in error.errors(include_url=False)]
    places = [e["loc"] for e in errors]
    # A list whose items are wrong is reported a second time as too short: say it once.
    return [
        _sentence(e, model)
        for e in errors
        if e["type"] != "too_short"
        or not any(p[: len(e["loc"])] == e["loc"] and p != e["loc"] for p in places)
    ]


def _sentence(error: dict[str, Any], model: type[BaseModel]) -> str:
    kind, value = error["type"], error.get("input")
    path, field, siblings = _locate(error["loc"], model)
    if kind == "extra_forbidden":
        key = path.rpartition(".")[2]
        near = closest(key, siblings)
        section = path[: len(path) - len(key)]
        # The very key in another section is a better guess than a similar one in this.
        hint = _elsewhere(key, path, model, cutoff=1.0) or (
            f"did you mean {section + near!r}?" if near else _elsewhere(key, path, model)
        )
        return f"unknown key {path!r}; {hint or 'allowed are ' + ', '.join(siblings)}"
    if kind == "missing":
        return f"{path} is missing{_described(field)}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        context = error["ctx"]
        key = f"{path}.{context['discriminator'].strip(chr(39))}"
        if kind == "union_tag_not_found":
            return f"{key} is missing"
        expected = context["expected_tags"].replace("'", "").split(", ")
        hint = nearest(context["tag"], expected)
        return f"{key} must be one of {', '.join(expected)}, got {context['tag']!r}{hint}"
    if kind == "value_error":
        return f"{path}: {error['ctx']['error']}" if path else str(error["ctx"]["error"])
    if kind == "literal_error":
        choices = ", ".join(repr(c) for c in _choices(field))
        return f"{path} must be one of {choices}, got {value!r}"
    if kind == "too_short":
        return f"{path} must have at least {error['ctx']['min_length']} entry"
    limits = _limits(field)
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        # Limits of a list's entries are not the field's: then the one that was broken is named.
        broken = [
            f"{word} {error['ctx'][key]}" for key, word in LIMITS.items() if key in error["ctx"]
        ]
        return f"{path} must be {limits or broken[0]}, got {value!r}"
    expected_type = EXPECTED_TYPES.get(kind.split("_")[0])
    if expected_type and not kind.startswith("string_too"):
        return f"{path} must be {expected_type}{f' {limits}' if limits else ''}, got {value!r}"
    return f"{path}: {error['msg']}, got {value!r}"


def _locate(
    location: tuple[int | str, ...], model: type[BaseModel]
) -> tuple[str, FieldInfo | None, list[str]]:
    """Follow an error's location to its key, field and the keys beside it.

    Pydantic puts the chosen branch of a union into the location; a user never wrote that word.
    """
    names: list[str] = []
    field: FieldInfo | None = None
    branches: list[type[BaseModel]] = [model]
    for part in location:
        chosen = [b for b in branches if _tag(b) == part]
        if len(branches) > 1 and chosen:
            branches = chosen
            continue
        names.append(str(part))
        if isinstance(part, int):
            continue
        field = _fields(branches[0]).get(part) if branches else None
        if field is None:
            break
        inner = list(_models(field.annotation))
        if inner:
            branches = inner
    siblings = [name for branch in branches for name in _offered(branch)]
    return ".".join(names), field, siblings


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Fields by the names that users write: `lambda` is none in Python, so it is an alias."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _offered(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields that users write."""
    fields = _fields(model).items()
    return {name: field for name, field in fields if field.json_schema_extra != WRITTEN}


def _tag(model: type[BaseModel]) -> str | None:
    for name in ("kind", "scheme"):
        if name in model.model_fields:
            return str(get_args(model.model_fields[name].annotation)[0])
    return None


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models inside an annotation such as `tuple[StationSection, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Annotated, Union, types.UnionType, tuple):
        for argument in get_args(annotation):
            yield from _models(argument)


def _elsewhere(key: str, path: str, model: type[BaseModel], cutoff: float = 0.75) -> str:
    """Suggest a key of another section, for one that was put into the wrong place."""
    everything = {full.rpartition(".")[2]: full for full in _all_keys(model, "")}
    near = closest(key, everything, cutoff=cutoff)
    return f"did you mean {everything[near]!r}?" if near and everything[near] != path else ""


def _all_keys(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in _offered(model).items():
        yield prefix + name
        for inner in _models(field.annotation):
            yield from _all_keys(inner, f"{prefix}{name}.")


def _choices(field: FieldInfo | None) -> tuple[Any, ...]:
    annotation = field.annotation if field else None
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _limits(field: FieldInfo | None) -> str:
    low = high = ""
    for bound in field.metadata if field else ():
        match bound:
            case Ge(ge=limit):
                low = f"{LIMITS['ge']} {limit}"
            case Gt(gt=limit):
                low = f"{LIMITS['gt']} {limit}"
            case Le(le=limit):
                high = f"{LIMITS['le']} {limit}"
            case Lt(lt=limit):
                high = f"{LIMITS['lt']} {limit}"
    return " and ".join(part for part in (low, high) if part)


def _described(field: FieldInfo | None) -> str:
    return f": {field.description}" if field and field.description else ""
