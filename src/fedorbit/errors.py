"""One exception tree: everything a user can cause and mend is a `FedOrbitError`.

The message is one sentence that names what is wrong, the value, what is allowed and the remedy.
The command line prints it and exits with 2; anything else that escapes is a bug and exits with 1.
"""

import difflib
import errno
import re
from collections.abc import Iterable

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of a write for which there is no room, or none within a limit."""
LONGEST_LINE = 200
INSTALL_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"


def closest(word: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the candidate that a mistyped word was probably meant to be."""
    return next(iter(difflib.get_close_matches(word, list(candidates), n=1, cutoff=cutoff)), None)


def os_sentence(error: OSError) -> str:
    """Return what the operating system refused, and of which file."""
    full = "the disk is full; make room there and try again"
    reason = full if error.errno in DISK_FULL else error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def one_line(error: BaseException, *, with_kind: bool = False) -> str:
    """Return the text of another library's error, to stand inside a sentence.

    A long text is cut, passwords in addresses are hidden, and an error without text is named by
    its kind.
    """
    kind, said = type(error).__name__, " ".join(str(error).split()).rstrip(".")
    text = f"{kind}: {said}" if with_kind and said else said or kind
    text = re.sub(r"://[^/@ ]+@", "://", text)
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 1]}…"


class FedOrbitError(Exception):
    """Base class of every error a user can mend."""


class ConfigError(FedOrbitError):
    """A configuration file, preset or override is wrong."""


class ElementSetError(FedOrbitError):
    """A TLE or OMM file is unreadable, broken or too old for the period asked for."""


class PlanError(FedOrbitError):
    """A contact plan is unreadable, or does not fit the constellation and its stations."""


class DataError(FedOrbitError):
    """A dataset is missing, damaged or not what its source promises."""


class FetchError(DataError):
    """A download failed; the message says which file to get by hand and where to put it."""


class PartitionError(FedOrbitError):
    """Samples cannot be dealt to satellites as asked."""


class ModelError(FedOrbitError):
    """A model or method cannot be found, or lacks what training needs."""


class LinkError(FedOrbitError):
    """A model was moved between an orbit and the ground station without a contact."""


class TrackingError(FedOrbitError):
    """A tracker's package is missing, or what it logs to cannot be reached."""


class RunError(FedOrbitError):
    """A run cannot start or resume in the folder given."""


class ClusterError(FedOrbitError):
    """A Ray cluster cannot be joined, or was lost."""
