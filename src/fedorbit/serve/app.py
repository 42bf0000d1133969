"""The server's answers: pages, their data, and updates of runs as server-sent events."""

import asyncio
import mimetypes
import re
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fedorbit.errors import FedOrbitError, os_sentence
from fedorbit.report.page import SCRIPTS, STYLE
from fedorbit.report.replicates import compare
from fedorbit.report.runfiles import MethodRecords, in_order, read_run
from fedorbit.serve import pages
from fedorbit.serve.catalog import Catalog, state_token
from fedorbit.serve.globe import Globe, read_globe
from fedorbit.simulation.manifest import CONFIG, MANIFEST, WORLD

LOOK_EVERY_S = 1.0
SIGN_OF_LIFE_EVERY = 15
"""Polls without an update, after which a comment shows whether the browser is still connected."""
MOST_FOLLOWERS = 64
"""Pages that follow runs at once."""
MOST_READ = 600
"""Runs whose records are kept for the next update of a page: as many as a large study has."""
ASSETS = {
    **dict.fromkeys((*SCRIPTS, STYLE), "fedorbit.report"),
    **dict.fromkeys(
        (
            "serve.css", "live.js", "globe.js", "globe_data.js", "globe_scene.js", "three.js",
            "three-LICENSE.txt", "icon.svg",
        ),
        "fedorbit.serve",
    ),
}  # fmt: skip
"""Files that pages load, and the package of each; no others are served."""


class Answers:
    """Answers about the runs of a catalog; `is_ending` is asked by answers that do not end."""

    def __init__(self, catalog: Catalog, is_ending: Callable[[], bool]) -> None:
        self._catalog = catalog
        self._is_ending = is_ending
        self._followers = 0
        self._globe = lru_cache(maxsize=4)(_globe_of)
        self._read: dict[Path, tuple[str, list[MethodRecords]]] = {}

    def overview(self, request: Request) -> Response:
        """Answer with the list of runs."""
        listing = self._catalog.listing()
        events = _events([], state_token(listing.runs.values()))
        states = self._catalog.states(listing.runs)
        return HTMLResponse(pages.list_page(listing, states, str(self._catalog.root), events))

    def runs(self, request: Request) -> Response:
        """Answer with the report's page of some runs."""
        names = request.query_params.getlist("name")
        chosen = self._catalog.listing().chosen(names)
        if not chosen:
            return HTMLResponse(pages.problem_page("Choose one run or more in the list."), 400)
        events = _events(names, state_token(chosen.values()))
        try:
            methods = [method for path in chosen.values() for method in self._methods(path)]
            comparison = compare(in_order(methods))
        except FedOrbitError as error:
            return HTMLResponse(pages.problem_page(str(error), events), 409)
        return HTMLResponse(pages.runs_page(comparison, list(chosen), events))

    def globe(self, request: Request) -> Response:
        """Answer with the page of a globe."""
        name, path = self._one_run(request)
        events = _events([name], state_token([path]))
        try:
            self._geometry(path)
        except FedOrbitError as error:
            return HTMLResponse(pages.problem_page(str(error), events), 409)
        return HTMLResponse(pages.globe_page(name, events))

    def globe_values(self, request: Request) -> Response:
        """Answer with a part of what a globe draws."""
        globe = self._geometry(self._one_run(request)[1])
        what = request.path_params["what"]
        if what == "about":
            return JSONResponse(globe.about)
        if what == "accuracies":
            return JSONResponse(globe.accuracies())
        part = re.fullmatch(r"[0-9]{1,9}", request.query_params.get("part", ""))
        if part is None or what not in ("positions", "contacts", "hops"):
            raise HTTPException(404, "There is no such part of a globe.")
        if what == "hops":
            method = request.query_params.get("method", "")
            return _binary(globe.hops(int(part[0]), method))
        values = globe.positions if what == "positions" else globe.contacts
        return _binary(values(int(part[0])))

    async def events(self, request: Request) -> Response:
        """Answer with an event whenever runs have written something."""
        names = request.query_params.getlist("name")
        known = request.query_params.get("state", "")
        await run_in_threadpool(self._state, names)  # an unknown run is an error now, not later
        if self._followers >= MOST_FOLLOWERS:
            raise HTTPException(503, f"More than {MOST_FOLLOWERS} pages follow runs; close some.")
        return StreamingResponse(self._news(names, known), media_type="text/event-stream")

    async def _news(self, names: list[str], known: str) -> AsyncIterator[str]:
        self._followers += 1
        quiet = 0
        try:
            yield "retry: 2000\n\n"
            while not self._is_ending():
                state = await run_in_threadpool(self._state, names)
                quiet = 0 if state != known else quiet + 1
                if state != known:
                    known = state
                    yield f"event: changed\ndata: {state}\n\n"
                elif quiet % SIGN_OF_LIFE_EVERY == 0:
                    yield ":\n\n"
                await asyncio.sleep(LOOK_EVERY_S)
        except FedOrbitError:
            return  # the run was removed; the browser's next request is answered with an error
        finally:
            self._followers -= 1

    def _state(self, names: list[str]) -> str:
        listing = self._catalog.listing()
        return state_token((listing.chosen(names) if names else listing.runs).values())

    def _one_run(self, request: Request) -> tuple[str, Path]:
        runs = self._catalog.listing().runs
        name = request.query_params.get("name", "")
        if name not in runs:
            raise HTTPException(404, f"No run here is called {name!r}; see the list of runs.")
        return name, runs[name]

    def _methods(self, path: Path) -> list[MethodRecords]:
        """Read a run without its checkpoints; a run that has written nothing is not read again."""
        state = state_token([path])
        known = self._read.pop(path, None)
        if known is None or known[0] != state:
            known = state, read_run(path, with_checkpoints=False)
        self._read[path] = known  # the last: the first ones are those that no page needed for long
        for oldest in list(self._read)[:-MOST_READ]:
            self._read.pop(oldest, None)
        return known[1]

    def _geometry(self, path: Path) -> Globe:
        # A run that is made anew under the same name has another manifest.
        files = (path / CONFIG, path / MANIFEST, path / WORLD)
        return self._globe(path, tuple(_written(file) for file in files))


def build_app(catalog: Catalog, is_ending: Callable[[], bool]) -> Starlette:
    """Return the application, without the guard in front of it."""
    answers = Answers(catalog, is_ending)
    return Starlette(
        routes=[
            Route("/", answers.overview),
            Route("/runs", answers.runs),
            Route("/globe", answers.globe),
            Route("/globe/{what}", answers.globe_values),
            Route("/events", answers.events),
            Route("/assets/{name}", _asset),
        ],
        exception_handlers={
            FedOrbitError: _explained,
            HTTPException: _explained,
            OSError: _explained,
        },
    )


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404, f"There is no file {name!r} here.")
    content = (resources.files(ASSETS[name]) / "assets" / name).read_bytes()
    kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    return Response(content, media_type=kind)


def _explained(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return HTMLResponse(pages.problem_page(error.detail), error.status_code)
    sentence = os_sentence(error) if isinstance(error, OSError) else str(error)
    return HTMLResponse(pages.problem_page(sentence), 404)


def _events(names: list[str], state: str) -> str:
    return f"{pages.address('/events', names)}{'&' if names else ''}state={state}"


def _binary(values: NDArray[Any]) -> Response:
    """Return numbers as little-endian single precision, as they are in memory elsewhere."""
    return Response(values.astype("<f4").tobytes(), media_type="application/octet-stream")


def _globe_of(path: Path, written: object) -> Globe:
    return read_globe(path)


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
