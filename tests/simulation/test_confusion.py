"""Confusion matrices and what follows from them, against scikit-learn and by hand."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score

import fedorbit as fo
from fedorbit.errors import ConfigError
from fedorbit.randomness import generator
from fedorbit.simulation.confusion import (
    ConfusionCounter,
    balanced_accuracy,
    class_accuracies,
    class_f1,
    class_figures,
    macro_f1,
)
from tests.simulation.test_runs import small


def test_figures_by_hand() -> None:
    """Three of four right, one of two right, and a class without samples that is never predicted."""
    matrix = [[3, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert class_accuracies(matrix) == [75.0, 50.0, None]
    assert balanced_accuracy(matrix) == 62.5
    assert class_f1(matrix) == [75.0, 50.0, None]
    assert macro_f1(matrix) == pytest.approx(100 * (6 / 8 + 2 / 4) / 2)
    assert class_figures([matrix, None, [[4, 0, 0], [0, 0, 0], [0, 0, 0]]]) == {
        "balanced_accuracy": pytest.approx((62.5 + 100.0) / 2),
        "macro_f1": pytest.approx((62.5 + 100.0) / 2),
    }
    assert class_figures([None]) == {"balanced_accuracy": None, "macro_f1": None}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_figures_are_those_of_scikit_learn(seed: int) -> None:
    """Also where a class has no samples, is never predicted, or neither."""
    rng = generator(seed, "confusion")
    labels = rng.integers(0, 7, 60) * (seed % 2 + 1) % 7
    predicted = np.where(rng.random(60) < 0.6, labels, rng.integers(0, 5, 60))
    counter = ConfusionCounter(
        lambda model, samples, offset: predicted[samples], labels, 8, [np.arange(60)], [0]
    )
    [matrix] = counter(np.zeros((1, 1), np.float32), [0])
    assert matrix == confusion_matrix(labels, predicted, labels=range(8)).tolist()
    assert balanced_accuracy(matrix) == pytest.approx(
        100 * balanced_accuracy_score(labels, predicted)
    )
    expected = f1_score(labels, predicted, average="macro", zero_division=0.0)
    assert macro_f1(matrix) == pytest.approx(100 * expected)
    named = np.union1d(labels, predicted)
    each = 100 * f1_score(labels, predicted, average=None, labels=named, zero_division=0.0)
    assert [f1 for f1 in class_f1(matrix) if f1 is not None] == pytest.approx(each.tolist())


def test_matrices_add_up_over_the_satellites_of_an_orbit() -> None:
    labels = np.array([0, 1, 0, 1])
    test = [np.array([0, 1]), np.array([2]), np.array([3]), np.empty(0, np.int64)]
    counter = ConfusionCounter(
        lambda model, samples, _: np.full(len(samples), int(model[0])),
        labels,
        2,
        test,
        [0, 0, 1, 2],
    )
    models = np.array([[1], [0], [1], [0]], np.float32)
    assert counter(models, [0, 1, 2, 3]) == [[[1, 1], [0, 1]], [[0, 0], [0, 1]], None]
    assert counter(models, [1, 2]) == [[[1, 0], [0, 0]], [[0, 0], [0, 1]], None]
    assert counter(models[:1], [0, 1]) == [[[0, 2], [0, 1]], None, None]


@pytest.mark.parametrize("backend", ["kernel", "torch"])
def test_records_have_matrices_at_the_end_and_when_asked(tmp_path: Path, backend: str) -> None:
    config = small(
        run={
            "rounds": 7,
            "evaluate_every": 2,
            "confusion_every": 4,
            "method": ["fedorbit", "local"],
        },
        engine={"backend": backend},
    )
    for run in fo.run(config, tmp_path / backend).runs:
        having = [record["round"] + 1 for record in run.records if "confusion" in record]
        assert having == [4, 7]
        for record in (r for r in run.records if "confusion" in r):
            for matrix, accuracy in zip(record["confusion"], record["orbit_accuracy"], strict=True):
                counts = np.array(matrix)
                assert 100.0 * np.trace(counts) / counts.sum() == accuracy
        figures = class_figures(run.records[-1]["confusion"])
        assert {key: run.summary[key] for key in figures} == figures


def test_matrices_belong_to_evaluated_rounds() -> None:
    with pytest.raises(
        ConfigError, match=r"confusion_every must be a multiple of evaluate_every \(2\), got 3"
    ):
        fo.load_config("quickstart", ["run.evaluate_every=2", "run.confusion_every=3"])
