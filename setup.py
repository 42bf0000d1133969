"""Builds the optional training kernel; everything else stands in pyproject.toml.

The library has a plain C interface and is loaded with ctypes. Without a C compiler, or on a machine
that is not x86-64, the build of the extension fails, which setuptools reports and passes over:
fedorbit then trains with PyTorch.
"""

from pathlib import Path

from setuptools import Extension, setup

KERNEL = Path("src/fedorbit/learning/kernel")

setup(
    ext_modules=[
        Extension(
            "fedorbit.learning.kernel._lenet",
            sources=[str(KERNEL / "lenet.c")],
            depends=[str(path) for path in sorted(KERNEL.glob("*.h"))],
            # No -ffast-math and no -march=native: results must not depend on the machine that
            # built them, and a NaN must stay visible. AVX2 is checked for when the library loads.
            extra_compile_args=[
                "-std=c11",
                "-O3",
                "-g0",
                "-mavx2",
                "-mfma",
                "-fno-math-errno",
                "-ffp-contract=off",
                "-fvisibility=hidden",
            ],
            libraries=["m"],
            optional=True,
        )
    ]
)
