"""Training of a part: it moves as if it were alone, and the rest keeps its bits."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fedorbit.errors import ModelError
from fedorbit.learning.jobs import LocalJob, SgdSettings, batch_order
from fedorbit.learning.parts import Part, span_of
from fedorbit.learning.rules import Sgd
from tests.learning.rules.cases import BACKENDS, DATA, SETTINGS, SPEC, trainer_of

SIZE = SPEC.layout.size
BODY, HEAD = SPEC.layout.features, SPEC.layout.classifier
SCATTERED = np.random.default_rng(1).random(SIZE) < 0.5
PARTS: dict[str, Part] = {
    "body": BODY,
    "head": HEAD,
    "last layer": slice(-340, None),
    "scattered": SCATTERED,
    "nothing": slice(0, 0),
}


def inside_of(part: Part) -> NDArray[np.bool_]:
    inside = np.zeros(SIZE, bool)
    inside[part] = True
    return inside


def batch_at(indices: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    x = DATA.images[indices] * DATA.scale + DATA.shift
    return torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(DATA.labels[indices])


def reference(job: LocalJob, rule: Sgd, inside: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Autograd with respect to the moving values alone, and torch's own optimiser for them."""
    shapes = {p.name: p for p in SPEC.layout.parameters}
    module, still = SPEC.build(), torch.from_numpy(job.start.copy())
    places = torch.from_numpy(np.flatnonzero(inside))
    moving = still[places].requires_grad_()
    optimiser = torch.optim.SGD(
        [moving], job.rate, momentum=SETTINGS.momentum, weight_decay=SETTINGS.weight_decay
    )
    for epoch in batch_order(DATA, job, 0):
        for begin in range(0, len(epoch), SETTINGS.batch):
            x, y = batch_at(epoch[begin : begin + SETTINGS.batch])
            w = still.index_put((places,), moving)
            tensors = {name: w[p.place].view(p.shape) for name, p in shapes.items()}
            logits = torch.func.functional_call(module, tensors, (x,))
            loss = functional.cross_entropy(logits, y)
            if rule.anchor is not None:
                away = w - torch.from_numpy(rule.anchor)
                loss = loss + rule.pull / 2 * away.square().sum()
            if rule.correction is not None:
                loss = loss + w @ torch.from_numpy(rule.correction)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([moving], SETTINGS.clip_norm)
            optimiser.step()
    return still.index_put((places,), moving).detach().numpy()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(("pulled", "corrected"), list(product([False, True], repeat=2)))
def test_a_part_moves_as_if_it_were_alone(
    backend: str, name: str, pulled: bool, corrected: bool
) -> None:
    part, start = PARTS[name], SPEC.initial_vector(0)
    noise = np.random.default_rng(2).normal(0, 0.05, (2, SIZE)).astype(np.float32)
    rule = Sgd(
        anchor=start + noise[0] if pulled else None,
        pull=0.3 if pulled else 0.0,
        correction=noise[1] if corrected else None,
        part=part,
    )
    job = LocalJob(0, start, 2, 0.05, (0,), rule)
    trained = trainer_of(backend).train(job, batch_order(DATA, job, 0))
    inside = inside_of(part)
    expected = reference(job, rule, inside) if inside.any() else start
    np.testing.assert_allclose(trained.model, expected, rtol=0, atol=3e-6)
    np.testing.assert_array_equal(
        trained.model[~inside].view(np.int32), start[~inside].view(np.int32)
    )
    assert trained.steps == 2 * 3
    if inside.any():
        assert np.abs(trained.model - start).max() > 1e-3


@pytest.mark.parametrize("backend", BACKENDS)
def test_slices_and_masks_of_the_same_values_give_the_same_bits(backend: str) -> None:
    trainer = trainer_of(backend)

    def ends(part: Part | None) -> bytes:
        job = LocalJob(0, SPEC.initial_vector(0), 1, 0.05, (0,), Sgd(part=part))
        return trainer.train(job, batch_order(DATA, job, 0)).model.tobytes()

    assert ends(HEAD) == ends(inside_of(HEAD)) != ends(None)
    assert ends(None) == ends(slice(None)) == ends(np.ones(SIZE, bool))


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_outside_keep_their_bits_whatever_they_are(backend: str) -> None:
    start = SPEC.initial_vector(0)
    places = np.array([3, 500, SIZE - 1])
    start[places] = [np.float32(-0.0), 1e-42, -0.0]  # a negative zero and a subnormal
    part = np.ones(SIZE, bool)
    part[places] = False
    job = LocalJob(0, start, 1, 0.05, (0,), Sgd(part=part))
    model = trainer_of(backend).train(job, batch_order(DATA, job, 0)).model
    np.testing.assert_array_equal(model[places].view(np.int32), start[places].view(np.int32))


class Narrow(nn.Module):
    """A LeNet with fewer maps and units, as a small satellite would hold it."""

    def __init__(self, maps1: int, maps2: int, units1: int, units2: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, maps1, 5)
        self.conv2 = nn.Conv2d(maps1, maps2, 5)
        self.fc1 = nn.Linear(2 * 3 * maps2, units1)
        self.fc2 = nn.Linear(units1, units2)
        self.fc3 = nn.Linear(units2, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        x = x.permute(0, 2, 3, 1).flatten(1)
        return self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x)))))


def mask_of(maps1: list[int], maps2: list[int], units1: list[int], units2: list[int]) -> Any:
    """Return the mask of the values of the full LeNet that belong to the narrow one."""
    whole = {p.name: np.zeros(p.shape, bool) for p in SPEC.layout.parameters}
    features = (16 * np.arange(2 * 3)[:, None] + maps2).ravel()  # of fc1: row, column, map
    whole["conv1.weight"][maps1] = whole["conv1.bias"][maps1] = True
    whole["conv2.weight"][np.ix_(maps2, maps1)] = whole["conv2.bias"][maps2] = True
    whole["fc1.weight"][np.ix_(units1, features)] = whole["fc1.bias"][units1] = True
    whole["fc2.weight"][np.ix_(units2, units1)] = whole["fc2.bias"][units2] = True
    whole["fc3.weight"][:, units2] = whole["fc3.bias"][:] = True
    return np.concatenate([whole[p.name].ravel() for p in SPEC.layout.parameters])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_masked_model_is_the_smaller_model(backend: str) -> None:
    """Masked values start at zero, and the rest learns as a network without them."""
    maps1, maps2 = [0, 2, 3, 5], [1, 2, 4, 7, 8, 11, 13]
    units1, units2 = list(range(0, 120, 2)), list(range(5, 70, 3))
    mask = mask_of(maps1, maps2, units1, units2)
    torch.manual_seed(3)
    narrow = Narrow(len(maps1), len(maps2), len(units1), len(units2))
    start = np.zeros(SIZE, np.float32)
    start[mask] = nn.utils.parameters_to_vector(narrow.parameters()).detach().numpy()
    job = LocalJob(0, start, 2, 0.05, (0,), Sgd(part=mask))
    order = batch_order(DATA, job, 0)
    trained = trainer_of(backend).train(job, order)

    optimiser = torch.optim.SGD(
        narrow.parameters(),
        job.rate,
        momentum=SETTINGS.momentum,
        weight_decay=SETTINGS.weight_decay,
    )
    for epoch in order:
        for begin in range(0, len(epoch), SETTINGS.batch):
            x, y = batch_at(epoch[begin : begin + SETTINGS.batch])
            optimiser.zero_grad()
            functional.cross_entropy(narrow(x), y).backward()
            nn.utils.clip_grad_norm_(narrow.parameters(), SETTINGS.clip_norm)
            optimiser.step()
    expected = nn.utils.parameters_to_vector(narrow.parameters()).detach().numpy()
    assert np.abs(expected - start[mask]).max() > 1e-3
    np.testing.assert_allclose(trained.model[mask], expected, rtol=0, atol=3e-6)
    np.testing.assert_array_equal(trained.model[~mask], 0)


def test_a_part_becomes_the_smallest_range_that_holds_it() -> None:
    def span(part: Part | None) -> tuple[int, int, bool, int]:
        found = span_of(part, 9)
        return found.begin, found.end, found.mask is not None, found.count

    mask = np.zeros(9, bool)
    assert span(None) == (0, 9, False, 9)
    assert span(slice(2, -1)) == (2, 8, False, 6)
    assert span(slice(7, 3)) == (7, 7, False, 0)
    assert span(mask) == (0, 0, False, 0)
    mask[2:5] = True
    assert span(mask) == (2, 5, False, 3)
    mask[7] = True
    assert span(mask) == (2, 8, True, 4)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (slice(0, 9, 2), "must be a slice without step, got slice"),
        (np.ones(9, np.int64), r"booleans, got an array \[9\] of int64"),
        (np.ones((3, 3), bool), r"got an array \[3, 3\] of bool"),
        ([0, 1], "got list"),
    ],
)
def test_other_parts_are_refused_when_the_rule_is_made(part: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Sgd(part=part)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mask_for_another_model_is_refused(backend: str) -> None:
    job = LocalJob(0, SPEC.initial_vector(0), 1, 0.05, (0,), Sgd(part=np.ones(7, bool)))
    with pytest.raises(ModelError, match=f"one value per parameter, {SIZE} in all, got 7"):
        trainer_of(backend).train(job, batch_order(DATA, job, 0))


def test_a_pull_without_an_anchor_is_refused() -> None:
    with pytest.raises(ModelError, match=r"a pull of 0\.1 needs an anchor"):
        Sgd(pull=0.1)


@pytest.mark.parametrize("batch", [1, 8, 23, 100])
@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_are_batches(backend: str, batch: int) -> None:
    job = LocalJob(0, SPEC.initial_vector(0), 2, 1e-3, (0,))
    trained = trainer_of(backend, SgdSettings(batch=batch)).train(job, batch_order(DATA, job, 0))
    assert trained.steps == {1: 46, 8: 6, 23: 2, 100: 2}[batch]
