"""`fedorbit doctor` as a user runs it, and the notice of a run without the kernel."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from fedorbit import __version__, diagnosis
from fedorbit.data.catalog import synthetic_dataset
from fedorbit.data.synthetic import SyntheticSpec
from fedorbit.diagnosis import Finding, can_run, diagnose
from fedorbit.learning import kernel
from fedorbit.machine import Machine
from fedorbit.progress import SilentProgress
from tests.cli.test_run import SMALL

NOT_BUILT = "the C library was not built at installation; install a C compiler and reinstall"
GIB = 1 << 30
GOOD = Machine("Example CPU", frozenset({"avx2", "fma"}), None, 8 * GIB, 6 * GIB)


@pytest.fixture
def kernel_is(monkeypatch: pytest.MonkeyPatch):
    """Pretend that the kernel is there (no reason), or not for a reason."""

    def pretend(reason: str) -> None:
        monkeypatch.setattr(kernel, "unavailable_reason", lambda: reason)
        monkeypatch.setattr(kernel, "available", lambda: not reason)

    return pretend


def finding(name: str, machine: Machine = GOOD) -> Finding:
    return next(f for f in diagnose(machine) if f.name == name)


def test_json_has_what_this_process_can_see(fedorbit) -> None:
    document = json.loads(fedorbit("doctor", "--json")[0])
    assert document["runs_possible"] is True
    value = {found["name"]: found["value"] for found in document["findings"]}
    assert value["fedorbit"] == __version__
    assert value["NumPy"] == np.__version__
    assert value["PyTorch"] == torch.__version__
    assert value["training path"] == ("kernel" if kernel.available() else "torch")
    assert value["cores"]["usable"] == len(os.sched_getaffinity(0))
    assert value["cache folder"]["folder"] == os.environ["FEDORBIT_CACHE"]
    assert value["eurosat"] is False
    assert {f["state"] for f in document["findings"]} <= {"ok", "absent", "notice", "problem"}


def test_the_page_names_the_path_and_the_remedy(fedorbit, kernel_is) -> None:
    kernel_is("")
    page, _ = fedorbit("doctor")
    assert "Runs are possible" in page
    assert "the C kernel for lenet" in page
    assert "fedorbit data fetch eurosat && fedorbit data prepare eurosat" in page
    kernel_is("this CPU has no AVX2 and FMA")
    page, _ = fedorbit("doctor")
    assert "PyTorch, because there is no kernel" in page
    assert "notice: training path: nothing is wrong" in page


@pytest.mark.parametrize(
    ("compilers", "remedy"),
    [
        ({"gcc"}, "its build says why"),
        ({"clang"}, "with CC=clang set"),
        (set(), "install a C compiler"),
    ],
)
def test_a_kernel_that_was_not_built(
    kernel_is, monkeypatch: pytest.MonkeyPatch, compilers: set[str], remedy: str
) -> None:
    kernel_is(NOT_BUILT)
    monkeypatch.setenv("CC", "gcc")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name in compilers else None)
    path = finding("training path")
    assert (path.value, path.state) == ("torch", "notice")
    assert remedy in path.remedy
    assert finding("C compiler").state == ("ok" if "gcc" in compilers else "absent")


def test_features_come_from_the_processor_where_the_kernel_is_missing(kernel_is) -> None:
    kernel_is(NOT_BUILT)
    assert finding("AVX2, FMA").value == {"avx2": True, "fma": True}
    old = Machine("Old CPU", frozenset({"avx"}), None, None, None)
    assert finding("AVX2, FMA", old).value == {"avx2": False, "fma": False}
    assert finding("AVX2, FMA", Machine("?", None, None, None, None)).text == "not known"
    kernel_is("")  # it has checked for them itself
    assert finding("AVX2, FMA", old).value == {"avx2": True, "fma": True}


def test_limits_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedorbit.learning.engine.default_workers", lambda: 16)
    cores = finding("cores", Machine("CPU", None, 2.0, 8 * GIB, GIB))
    assert cores.state == "notice" and "engine.workers=2" in cores.remedy
    assert finding("cores", Machine("CPU", None, 16.0, 8 * GIB, GIB)).state == "ok"
    assert finding("memory", Machine("CPU", None, 2.0, 8 * GIB, GIB)).state == "notice"
    assert finding("memory").state == "ok"


def test_without_pytorch_nothing_runs(fedorbit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "_torch_error", lambda: "ImportError: libtorch.so is missing")
    page, _ = fedorbit("doctor", code=1)
    assert "Runs are not possible" in page
    assert "libtorch.so is missing" in " ".join(page.split())  # cells wrap
    assert json.loads(fedorbit("doctor", "--json", code=1)[0])["runs_possible"] is False


def test_datasets_prepared_damaged_and_downloaded(own_cache: Path) -> None:
    whole, cut = (
        synthetic_dataset(SyntheticSpec(samples=n, size=16), SilentProgress()) for n in (50, 60)
    )
    (cut.folder / "labels.npy").write_bytes(b"short")
    (own_cache / "downloads").mkdir()
    (own_cache / "downloads" / "EuroSAT_RGB.zip").touch()
    assert finding(whole.name).text == "prepared: 50 images of 16 x 16 x 3"
    assert finding(cut.name).state == "notice"
    assert "--force" in finding(cut.name).remedy
    assert finding("eurosat").state == "notice"
    assert finding("eurosat").remedy == "fedorbit data prepare eurosat"
    assert finding("so2sat").state == "absent"


def test_a_cache_that_cannot_be_written(own_cache: Path) -> None:
    own_cache.write_text("a file where the folder should be")
    folder = finding("cache folder")
    assert folder.state == "problem" and "FEDORBIT_CACHE" in folder.remedy
    assert not can_run([folder])


def test_a_full_disk(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(own_cache.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    assert finding("cache folder").state == "notice"


RUN = ("run", *SMALL, "-o", "run.rounds=1", "-m", "fedavg", "-m", "local", "--json")


def test_a_run_without_the_kernel_says_so_once(fedorbit, kernel_is) -> None:
    kernel_is(NOT_BUILT)
    for quiet in ((), ("--quiet",)):
        out, err = fedorbit(*RUN, *quiet)
        assert len(json.loads(out)["runs"]) == 2
        assert err.splitlines() == [
            "fedorbit: PyTorch trains, more slowly than the C kernel would, because the C "
            "library was not built at installation; see `fedorbit doctor`"
        ]


def test_no_notice_for_who_asked_for_pytorch_or_has_the_kernel(fedorbit, kernel_is) -> None:
    if kernel.available():
        assert fedorbit(*RUN)[1] == ""
    kernel_is(NOT_BUILT)
    assert fedorbit(*RUN, "-o", "engine.backend=torch")[1] == ""


def test_what_cannot_start_reports_that_alone(fedorbit, kernel_is) -> None:
    kernel_is(NOT_BUILT)
    err = fedorbit(*RUN, "-o", "run.rounds=500", code=2)[1]
    assert len(err.splitlines()) == 1 and "run.rounds must be at most" in err
