"""A process that does runs for a study, one after the other: `python -m fedorbit.studies.worker`.

Orders are JSON lines on standard input, answers are JSON lines on standard output. When standard
input closes, the process that gave the orders has ended, perhaps by a kill: the current run is then
stopped as by SIGTERM, which keeps a checkpoint, and nothing continues unattended.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedorbit.config import load_config
from fedorbit.errors import FedOrbitError, os_sentence
from fedorbit.simulation import runs
from fedorbit.simulation.manifest import CONFIG
from fedorbit.stopping import StopRequested
from fedorbit.studies.executors import Outcome
from fedorbit.studies.folders import (
    as_started,
    forget_failure,
    planned_config,
    run_lock,
    write_failure,
)
from fedorbit.user_code import allow_code, described

GRACE_S = 60.0
"""Seconds that a stop may take before the process is killed."""


def main() -> None:
    """Run what is ordered until the pipe is closed."""
    # What a method prints must not look like an answer: it goes where messages go.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    while True:
        order = orders.get()
        allow_code(*order["allow_code"])
        try:
            answer = do_run(Path(order["out"]), order["folder"], order["engine"])
        except StopRequested as stop:
            os._exit(128 + stop.signal_number)  # a thread still reads standard input
        print(json.dumps({"folder": order["folder"], "state": answer}), file=answers, flush=True)


def do_run(out: Path, slug: str, settings: Mapping[str, Any]) -> Outcome:
    """Begin or continue a run, with these settings of its engine; `held` if another process does.

    A failure is written down beside the run.
    """
    folder = out / slug
    with run_lock(out, slug) as is_ours:
        if not is_ours:
            return "held"
        forget_failure(out, slug)
        try:
            config = as_started(load_config(planned_config(out, slug)), folder)
            engine = config.engine.model_copy(update=dict(settings))
            config = config.model_copy(update={"engine": engine})
            if (folder / CONFIG).exists():
                runs.resume(folder, config)
            else:
                runs.run(config, folder)
        except Exception as error:
            write_failure(out, slug, _sentence(error), traceback.format_exc())
            return "failed"
    return "done"


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return os_sentence(error)
    return str(error) if isinstance(error, FedOrbitError) else described(error)


def _listen(orders: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
