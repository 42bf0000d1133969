"""Runs on nodes that do not see the study's folder: their files are sent here while they train."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from fedorbit.config import load_config
from fedorbit.config.files import dumps
from fedorbit.config.inputs import copy_name, input_files, with_files
from fedorbit.studies import folders
from fedorbit.studies.ray.node import Order
from fedorbit.studies.ray.nodes import on_node
from fedorbit.studies.sync import Mirror, RunFiles, write_files


@contextmanager
def returned_files(ray: ModuleType, out: Path) -> "Iterator[ReturnedFiles]":
    """Take files in until the block ends."""
    from ray.util.queue import Queue

    here = ray.get_runtime_context().get_node_id()
    queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": on_node(ray, here)})
    files = ReturnedFiles(out, queue)
    try:
        yield files
    finally:
        files.let_go()
        queue.shutdown()


class ReturnedFiles:
    """Runs whose files are sent here; this process locks them, since no other can."""

    def __init__(self, out: Path, queue: Any) -> None:
        self._out, self._queue = out, queue
        self._tickets: dict[str, str] = {}
        self._locks: dict[str, ExitStack] = {}

    def lock(self, slug: str) -> bool:
        """Lock a run until it is settled; False if another process does it."""
        with ExitStack() as stack:
            if not stack.enter_context(folders.run_lock(self._out, slug)):
                return False
            self._locks[slug] = stack.pop_all()
        return True

    def complete(self, order: Order) -> Order:
        """Add the run's files, and how to send them back."""
        slug, ticket = order.slug, secrets.token_hex(8)
        self._tickets[ticket] = slug
        folders.forget_failure(self._out, slug)
        so_far = Mirror(self._out, slug).changes() or RunFiles({}, frozenset())
        contents = {**self._planned(slug), **so_far.contents}
        files = replace(so_far, contents=contents)
        return replace(order, ticket=ticket, files=files, outbox=self._queue)

    def receive(self) -> None:
        """Write down what was sent; what comes of an attempt that was given up is dropped."""
        for ticket, files in self._queue.get_nowait_batch(self._queue.qsize()):
            if ticket in self._tickets:
                write_files(files, self._out, self._tickets[ticket])

    def settle(self, slug: str, last: RunFiles | None) -> None:
        """Write the last files of a run that has ended, and release its lock."""
        self.receive()
        if last is not None:
            write_files(last, self._out, slug)
        self._tickets = {ticket: of for ticket, of in self._tickets.items() if of != slug}
        self._locks.pop(slug).close()

    def let_go(self) -> None:
        """Release all locks."""
        while self._locks:
            self._locks.popitem()[1].close()

    def _planned(self, slug: str) -> dict[str, bytes]:
        """Return the configuration a run is to have, with the files that it names."""
        path = folders.planned_config(self._out, slug)
        config = load_config(path)
        files = input_files(config)
        names = {key: Path(f"{slug}.{copy_name(key, file)}") for key, file in files.items()}
        folder = path.parent.relative_to(self._out)
        sent = {str(folder / names[key]): file.read_bytes() for key, file in files.items()}
        text = dumps(with_files(config, names)) if files else path.read_text(encoding="utf-8")
        return {**sent, str(path.relative_to(self._out)): text.encode()}
