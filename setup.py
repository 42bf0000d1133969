"""Builds the optional training kernel; everything else stands in pyproject.toml.

The library has a plain C interface and is loaded with ctypes: it knows nothing of Python, so one
wheel per platform serves every Python 3. Where it cannot be built (no C compiler, or a machine that
is not x86-64), setuptools reports that and passes over it, the wheel is one for any platform, and
fedorbit trains with PyTorch.
"""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NAME = "fedorbit.learning.kernel._lenet"
KERNEL = Path("src/fedorbit/learning/kernel")


class BuildLibrary(build_ext):
    """Builds `_lenet.so`, whatever Python builds it."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path of the library inside the package."""
        return str(Path(*fullname.split(".")).with_suffix(".so"))


class LibraryWheel(bdist_wheel):
    """A wheel for every Python 3; for this platform if the library was built, else for any."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag by what was built."""
        _, _, platform = super().get_tag()
        built = Path(self.get_finalized_command("build_ext").get_ext_fullpath(NAME)).is_file()
        self.root_is_pure = not built
        return "py3", "none", platform if built else "any"


setup(
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": LibraryWheel},
    ext_modules=[
        Extension(
            NAME,
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
    ],
)
