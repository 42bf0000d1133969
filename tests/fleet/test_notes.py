import pytest

from fedorbit.errors import ModelError
from fedorbit.fleet.notes import Notes
from fedorbit.simulation.records import noted


def test_a_record_has_count_mean_maximum_and_last_of_each_name() -> None:
    notes = Notes()
    for staleness in (4, 0, 2):
        notes.add({"staleness": staleness})
    notes.add({"version": 7})
    assert notes.record()["noted"] == {
        "staleness": {"count": 3, "mean": 2.0, "max": 4.0, "last": 2.0},
        "version": {"count": 1, "mean": 7.0, "max": 7.0, "last": 7.0},
    }
    notes.start_record()
    assert notes.record() == {}


def test_notes_continue_after_a_checkpoint() -> None:
    first, second = Notes(), Notes()
    first.add({"staleness": 1.5})
    second.restore(first.saved())
    first.add({"staleness": -3.0})
    second.add({"staleness": -3.0})
    assert first.record() == second.record()


def test_a_number_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ModelError, match="staleness = nan cannot be noted"):
        Notes().add({"staleness": float("nan")})


def test_a_summary_counts_over_all_records() -> None:
    notes, records = Notes(), []
    for numbers in ((1, 2), (), (6,)):
        for number in numbers:
            notes.add({"staleness": number})
        records.append(notes.record())
        notes.start_record()
    assert noted(records) == {
        "noted": {"staleness": {"count": 3, "mean": 3.0, "max": 6.0, "last": 6.0}}
    }
    assert noted([{}, {}]) == {}
