"""LeNet, its training and its evaluation as most PyTorch code writes them.

Images are standardised float tensors in memory, which is the fastest a DataLoader can be fed.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from workload import Workload

EVALUATION_BATCH = 256


class LeNet(nn.Module):
    """The textbook's layout; parameters have the shapes and the order of fedorbit's."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
        self.fc1 = nn.Linear(16 * rows * columns, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = functional.relu(self.fc1(x))
        x = functional.relu(self.fc2(x))
        return self.fc3(x)


def make_model(workload: Workload) -> LeNet:
    return LeNet(*workload.image_shape, workload.classes)


def make_datasets(workload: Workload, parts: list[NDArray[np.int64]]) -> list[TensorDataset]:
    datasets = []
    for part in parts:
        images = workload.images[part].astype(np.float32) * workload.scale + workload.shift
        datasets.append(
            TensorDataset(
                torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(),
                torch.from_numpy(workload.labels[part]),
            )
        )
    return datasets


def train(
    model: nn.Module, dataset: TensorDataset, epochs: int, rate: float, sgd: dict[str, Any]
) -> None:
    loader = DataLoader(dataset, batch_size=sgd["batch"], shuffle=True)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=rate, momentum=sgd["momentum"], weight_decay=sgd["weight_decay"]
    )
    criterion = nn.CrossEntropyLoss()
    model.train()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            criterion(model(images), labels).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), sgd["clip_norm"])
            optimizer.step()


def evaluate(model: nn.Module, dataset: TensorDataset) -> tuple[int, float]:
    """Return how many samples are right, and the sum of their losses."""
    criterion = nn.CrossEntropyLoss(reduction="sum")
    correct, loss = 0, 0.0
    model.eval()
    with torch.no_grad():
        for images, labels in DataLoader(dataset, batch_size=EVALUATION_BATCH):
            logits = model(images)
            correct += int((logits.argmax(1) == labels).sum())
            loss += float(criterion(logits, labels))
    return correct, loss
