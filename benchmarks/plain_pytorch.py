"""LeNet, its training and its evaluation as most PyTorch code writes them.

Images are in memory in either of two ways. Idiomatic: bytes that become a standardised tensor
whenever one is accessed, which is what torchvision's datasets and Flower's guide to PyTorch do.
Generous: standardised tensors, which is the fastest a DataLoader can be fed.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset
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


class TransformedOnAccess(Dataset[tuple[Tensor, ...]]):
    """Bytes, with ToTensor and Normalize applied to a sample when it is asked for."""

    def __init__(self, workload: Workload, part: NDArray[np.int64]) -> None:
        self.images = workload.images[part]
        self.labels = workload.labels[part]
        brightest = np.float32(255 if self.images.dtype == np.uint8 else 1)
        deviation = 1 / workload.scale
        self.mean = torch.from_numpy(-workload.shift * deviation / brightest).view(-1, 1, 1)
        self.deviation = torch.from_numpy(deviation / brightest).view(-1, 1, 1)
        self.brightest = float(brightest)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        image = torch.from_numpy(self.images[index]).permute(2, 0, 1).contiguous()
        image = image.to(torch.float32).div(self.brightest)  # ToTensor
        image = image.clone().sub_(self.mean).div_(self.deviation)  # Normalize
        return image, self.labels[index]


Samples = TransformedOnAccess | TensorDataset


def make_datasets(workload: Workload, parts: list[NDArray[np.int64]]) -> list[Samples]:
    if workload.settings["idiomatic"]:
        return [TransformedOnAccess(workload, part) for part in parts]
    datasets: list[Samples] = []
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
    model: nn.Module, dataset: Samples, epochs: int, rate: float, sgd: dict[str, Any]
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


def evaluate(model: nn.Module, dataset: Samples) -> tuple[int, float]:
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
