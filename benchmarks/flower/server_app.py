"""The ground station as a Flower server.

Two intra-orbit rounds within one round do not fit into `Strategy.start`, which trains once per
round; so the server has its own loop over `grid.send_and_receive`, as Flower's documentation does
it for such cases. It needs no sampling of clients: the schedule says who trains.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp
from plain_pytorch import make_model
from torch.nn.utils import vector_to_parameters
from workload import WaveEngine, Workload, load, run_method

from fedorbit.learning.jobs import LocalJob
from fedorbit.learning.parameters import Vector


class OverGrid(WaveEngine):
    """Sends jobs to Flower's clients, largest first, and waits for all replies."""

    def __init__(self, workload: Workload, file: Path, grid: Grid) -> None:
        super().__init__(workload)
        self._workload = workload
        self._file = str(file)
        self._grid = grid
        self._model = make_model(workload)
        self._node = self._find_satellites()

    def _find_satellites(self) -> dict[int, int]:
        """Ask every node which satellite it is; the worker processes start with that."""
        satellites = len(self._workload.train)
        while len(nodes := list(self._grid.get_node_ids())) < satellites:
            time.sleep(0.1)
        replies = self._send([(node, MessageType.QUERY, None, {}) for node in nodes])
        return {
            int(reply.content["metrics"]["satellite"]): node
            for node, reply in zip(nodes, replies, strict=True)
        }

    def train_all(self, jobs: list[LocalJob]) -> list[Vector]:
        samples = [job.epochs * len(self._workload.train[job.satellite]) for job in jobs]
        largest_first = sorted(range(len(jobs)), key=lambda i: -samples[i])
        replies = self._send(
            [
                (
                    self._node[jobs[i].satellite],
                    MessageType.TRAIN,
                    jobs[i].start,
                    {"epochs": jobs[i].epochs, "rate": jobs[i].rate},
                )
                for i in largest_first
            ]
        )
        models: dict[int, Vector] = {}
        for i, reply in zip(largest_first, replies, strict=True):
            arrays = reply.content["arrays"].to_numpy_ndarrays()
            models[i] = np.concatenate([array.ravel() for array in arrays])
        return [models[i] for i in range(len(jobs))]

    def evaluate_orbits(self, models: dict[int, Vector]) -> list[tuple[int, float]]:
        """Have one satellite of each orbit evaluate that orbit's model."""
        first = {int(o): k for k, o in reversed([*enumerate(self._workload.orbit_of_satellite)])}
        replies = self._send(
            [
                (self._node[first[orbit]], MessageType.EVALUATE, model, {"orbit": orbit})
                for orbit, model in models.items()
            ]
        )
        metrics = [reply.content["metrics"] for reply in replies]
        return [(int(m["correct"]), float(m["loss"])) for m in metrics]

    def _send(self, tasks: list[tuple[int, str, Vector | None, dict[str, Any]]]) -> list[Message]:
        """Send one message to each node and return the replies in the same order."""
        messages = []
        for node, kind, model, config in tasks:
            content = RecordDict({"config": ConfigRecord({"workload": self._file, **config})})
            if model is not None:
                content["arrays"] = self._arrays(model)
            messages.append(Message(content=content, message_type=kind, dst_node_id=node))
        replies = {
            reply.metadata.src_node_id: reply for reply in self._grid.send_and_receive(messages)
        }
        for reply in replies.values():
            if reply.has_error():
                raise RuntimeError(f"a client failed: {reply.error.reason}")
        return [replies[node] for node, *_ in tasks]

    def _arrays(self, model: Vector) -> ArrayRecord:
        with torch.no_grad():
            vector_to_parameters(torch.from_numpy(model.copy()), self._model.parameters())
        return ArrayRecord(self._model.state_dict())


def make_server_app(file: Path, method: str, result: Path) -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        workload = load(file)
        engine = OverGrid(workload, file, grid)
        outcome = run_method(workload, method, engine, make_model(workload))
        result.write_text(json.dumps(outcome), encoding="utf-8")

    return app
