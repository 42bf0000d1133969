"""Reading of the system's own files, on files written by hand."""

from pathlib import Path

import pytest

from fedorbit.machine import Machine, read_machine

CPUINFO = """\
processor\t: 0
model name\t: Example CPU @ 2.00GHz
flags\t\t: fpu sse2 avx avx2 fma

processor\t: 1
model name\t: Another name
flags\t\t: fpu
"""
MEMINFO = "MemTotal:       8388608 kB\nMemFree:        1 kB\nMemAvailable:   4194304 kB\n"
GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path):
    def read(files: dict[str, str]) -> Machine:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return read_machine(tmp_path)

    return read


def test_linux(machine) -> None:
    found = machine({"proc/cpuinfo": CPUINFO, "proc/meminfo": MEMINFO})
    assert found.cpu == "Example CPU @ 2.00GHz"
    assert found.features == {"fpu", "sse2", "avx", "avx2", "fma"}
    assert (found.memory_bytes, found.available_bytes) == (8 * GIB, 4 * GIB)
    assert found.cpu_limit is None


def test_a_system_that_says_nothing(machine) -> None:
    found = machine({})
    assert found.features is None
    assert found.cpu_limit is None
    assert found.available_bytes is None


@pytest.mark.parametrize(
    ("text", "limit"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("", None)]
)
def test_the_time_a_container_allows(machine, text: str, limit: float | None) -> None:
    assert machine({"sys/fs/cgroup/cpu.max": text}).cpu_limit == limit


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [
        (f"{2 * GIB}\n", f"{GIB // 2}\n", (2 * GIB, 3 * GIB // 2)),
        (f"{7 * GIB}\n", "0\n", (7 * GIB, 4 * GIB)),  # the machine itself has less to spare
        (f"{2 * GIB}\n", f"{3 * GIB}\n", (2 * GIB, 0)),
        ("max\n", "0\n", (8 * GIB, 4 * GIB)),
        (f"{100 * GIB}\n", "0\n", (8 * GIB, 4 * GIB)),
    ],
)
def test_the_memory_a_container_allows(
    machine, limit: str, used: str, expected: tuple[int, int]
) -> None:
    files = {"sys/fs/cgroup/memory.max": limit, "sys/fs/cgroup/memory.current": used}
    found = machine({"proc/meminfo": MEMINFO, **files})
    assert (found.memory_bytes, found.available_bytes) == expected
