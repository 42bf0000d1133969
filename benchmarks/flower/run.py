"""Run the Flower app in its simulation engine: Ray with two CPUs, one per client.

Run by `against_flower.py` in an environment of Flower's own.
Usage: python benchmarks/flower/run.py WORKLOAD METHOD RESULT
"""

import sys
from pathlib import Path

import client_app
import torch
from flwr.simulation import run_simulation
from server_app import make_server_app
from workload import load

if __name__ == "__main__":
    workload, method, result = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    torch.manual_seed(0)
    run_simulation(
        server_app=make_server_app(workload, method, result),
        client_app=client_app.app,
        num_supernodes=len(load(workload).train),
        backend_config={
            "init_args": {"num_cpus": 2},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
