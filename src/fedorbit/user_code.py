"""Methods and models of the user's own, named `package.module:name`.

Importing a module runs it. So a module is imported only if the user has allowed it: on the command
line (`-m`, `-o` or `--allow-code`), in the user's settings file, or from Python by `allow_code`.
That a configuration, a run folder or a study names a module is never enough, since any of them may
come from others.

The settings file is `settings.toml` in the user's configuration folder of fedorbit
(`~/.config/fedorbit` on Linux): `allow_code = ["my_lab"]` allows `my_lab` and all modules in it.
"""

import importlib
import re
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import TypeAdapter

from fedorbit.documents import DocumentError, file_digest, parse_toml, read_text, require
from fedorbit.errors import ConfigError, ModelError

SETTINGS = "settings.toml"

_NAMED = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_]")
_MODULES: TypeAdapter[list[str]] = TypeAdapter(list[str])
_allowed: set[str] = set()
_imported: dict[str, str] = {}
"""SHA-256 of the file of each module when it was imported."""


def allow_code(*modules: str) -> None:
    """Allow modules, and the modules inside them, to be imported in this process."""
    _allowed.update(modules)


def allow_code_named_in(texts: Iterable[str]) -> None:
    """Allow every module that stands as `module:name` in texts which the user has typed."""
    allow_code(*(module for text in texts for module in _NAMED.findall(text)))


def allowed_code() -> tuple[str, ...]:
    """Modules that are allowed in this process, for processes that work on its behalf."""
    return tuple(sorted({*_allowed, *_from_settings()}))


def module_of(name: str) -> str | None:
    """Return the module in `package.module:name`; None for a name that is no code."""
    module, colon, attribute = name.partition(":")
    return module if colon and module and attribute else None


def is_allowed(module: str) -> bool:
    """Return whether a module, or a package around it, is allowed."""
    packages = module.split(".")
    around = {".".join(packages[: depth + 1]) for depth in range(len(packages))}
    return not around.isdisjoint(allowed_code())


def require_allowed(name: str, setting: str) -> None:
    """Refuse code of the user's own that is not allowed; nothing is imported."""
    module = module_of(name)
    if module is None or is_allowed(module):
        return
    file = find_file(module)
    where = f"{file}" if file is not None else f"the module {module}, which is not found here"
    raise ModelError(
        f"{setting} is {name}, which would run {where}; if you trust it, add --allow-code {module} "
        f"(in Python: fedorbit.allow_code({module!r}))"
    )


def load_object(name: str, setting: str) -> Any:
    """Import `package.module:name`; the current folder is searched too, as `python -m` would."""
    module_name = module_of(name)
    if module_name is None:
        raise ModelError(f"{setting} must be a known name or package.module:name, got {name!r}")
    require_allowed(name, setting)
    sys.path[:] = _search_path()
    if module_name not in _imported and (digest := _file_digest(module_name)) is not None:
        _imported[module_name] = digest
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a syntax error, say, or a script that ends itself
        raise ModelError(f"{setting}: cannot import {module_name} ({described(error)})") from error
    attribute = name.partition(":")[2]
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise ModelError(f"{setting}: {module_name} has no {attribute!r}") from None


def described(error: BaseException) -> str:
    """Describe an error in user code by its kind and its text."""
    if isinstance(error, SystemExit):
        return f"it calls sys.exit({error.code!r})"
    return str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"


def find_file(module: str) -> Path | None:
    """Return the file that importing a module would run; found without importing anything.

    `importlib.util.find_spec` imports the packages around a module, so each is looked up here.
    """
    search: list[str] | None = _search_path()
    spec = None
    try:
        for depth in range(len(parts := module.split("."))):
            name = ".".join(parts[: depth + 1])
            found = [_look_up(finder, name, search, depth == 0) for finder in sys.meta_path]
            spec = next((each for each in found if each is not None), None)
            search = list((spec and spec.submodule_search_locations) or [])
    except (OSError, ValueError, KeyError):  # no file can have that name, or it is unknown
        return None
    return _origin(spec)


def _look_up(finder: Any, name: str, search: list[str] | None, is_top: bool) -> ModuleSpec | None:
    if not hasattr(finder, "find_spec"):
        return None
    path = search if finder is PathFinder or not is_top else None
    try:
        found: ModuleSpec | None = finder.find_spec(name, path)
    except (ImportError, KeyError, AttributeError):  # it needs its package imported
        return None
    return found


def _search_path() -> list[str]:
    here = str(Path.cwd())
    return list(sys.path) if {"", here} & set(sys.path) else [here, *sys.path]


def _origin(spec: ModuleSpec | None) -> Path | None:
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    return Path(spec.origin)


def code_digests(names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of the files of all modules among some names, as a run keeps them.

    Of a module that was imported it is that of the code which runs: a file that was changed
    since then is refused.
    """
    digests = {}
    for module in sorted({m for name in names if (m := module_of(name)) is not None}):
        now, then = _file_digest(module), _imported.get(module)
        if then is not None and now != then:
            raise ModelError(
                f"the file of module {module} was changed after it was imported; start Python again"
            )
        if now is not None:
            digests[module] = now
    return digests


def _file_digest(module: str) -> str | None:
    origin = getattr(sys.modules.get(module), "__file__", None)
    file = Path(origin) if origin else find_file(module)
    return file_digest(file) if file is not None and file.is_file() else None


def _from_settings() -> frozenset[str]:
    """Read the modules that the user's settings file allows."""
    path = platformdirs.user_config_path("fedorbit") / SETTINGS
    try:
        values = parse_toml(read_text(path))
        if unknown := sorted(set(values) - {"allow_code"}):
            raise DocumentError(f"unknown key {unknown[0]!r}; the only one is 'allow_code'")
        require(modules := values.get("allow_code", []), _MODULES)
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except DocumentError as error:
        raise ConfigError(f"{path} cannot be used ({error}); mend it, or remove it") from None
    return frozenset(modules)
