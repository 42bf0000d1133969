"""A satellite as a Flower client: the message API, as Flower's PyTorch tutorial writes it.

Everything is loaded once per worker process, before the clock starts; the tutorial loads a
client's images anew in every round.
"""

from functools import cache
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from plain_pytorch import LeNet, Samples, evaluate, make_datasets, make_model, train
from workload import Workload, load

torch.set_num_threads(1)  # two workers share two cores

app = ClientApp()


@cache
def load_data(file: str) -> tuple[Workload, list[Samples], list[Samples]]:
    workload = load(Path(file))
    return (
        workload,
        make_datasets(workload, workload.train),
        make_datasets(workload, workload.test),
    )


def model_of(message: Message, workload: Workload) -> LeNet:
    model = make_model(workload)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model


@app.query()
def say_who_you_are(message: Message, context: Context) -> Message:
    load_data(message.content["config"]["workload"])
    satellite = MetricRecord({"satellite": int(context.node_config["partition-id"])})
    return Message(content=RecordDict({"metrics": satellite}), reply_to=message)


@app.train()
def train_satellite(message: Message, context: Context) -> Message:
    config = message.content["config"]
    workload, train_sets, _ = load_data(config["workload"])
    dataset = train_sets[int(context.node_config["partition-id"])]
    model = model_of(message, workload)
    train(model, dataset, config["epochs"], config["rate"], workload.settings["sgd"])
    content = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": len(dataset)}),
        }
    )
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate_orbit(message: Message, context: Context) -> Message:
    config = message.content["config"]
    workload, _, test_sets = load_data(config["workload"])
    correct, loss = evaluate(model_of(message, workload), test_sets[config["orbit"]])
    metrics = MetricRecord({"correct": correct, "loss": loss})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
