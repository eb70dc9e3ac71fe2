"""One tree of exceptions; each class carries the exit code that the command line returns.

Messages name the argument, its value and the valid values, and suggest a remedy.
"""

import re
from importlib.util import find_spec

from pmldesign._version import FORMAT, version

UNBIASED, FORKED = "0.14.2", (0, 15, 0)
"""The first OpenDP whose exact noise has its law (docs/background/errata.md), and the last
version with pre-releases that may be older than it."""


def require_extra(what: str, package: str, extra: str, instead: str = "") -> None:
    """Refuse a feature whose package is not installed, and say which extra brings it.

    Raises:
        InvalidInputError: the package is not installed, or is an OpenDP of biased noise.
    """
    if find_spec(package) is None:
        raise InvalidInputError(
            f"{what} needs {package}; install it in a copy of the repository with: pip install"
            f" '.[{extra}]'{instead}"
        )
    if package == "opendp" and is_biased(installed := version(package)):
        raise InvalidInputError(
            f"{what} needs opendp {UNBIASED} or later, here is {installed}, whose noise is biased"
            " and loses more privacy than is promised: pip install --upgrade opendp"
        )


def is_biased(installed: str) -> bool:
    """Whether this version of OpenDP may be older than UNBIASED."""
    form = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)((?:\.post\d+)?(?:\+[a-z0-9.]+)?)(.*)", installed)
    if form is None:
        return True
    numbers = tuple(int(part) for part in form.groups()[:3])
    if form[5]:  # a pre-release
        return numbers <= FORKED
    return numbers < tuple(int(part) for part in UNBIASED.split("."))


def printable(text: str) -> str:
    """The text with control characters, and bytes that are no UTF-8, written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class PmldesignError(Exception):
    """Base of every error that pmldesign raises on purpose; `opening` is how its line begins."""

    exit_code = 1
    opening = "error"


class InvalidInputError(PmldesignError, ValueError):
    """An argument is outside the range that the function or the command accepts."""

    exit_code = 2


class NotConvergedError(PmldesignError):
    """A solver stopped before the requested gap; its best result is not good enough here."""

    exit_code = 3


class VacuousGuaranteeError(PmldesignError, ValueError):
    """A vacuous guarantee: every mechanism satisfies it, so that it protects no one."""

    exit_code = 4


class InfeasibleError(PmldesignError):
    """The request cannot be met by any choice of parameters."""

    exit_code = 5


class FileError(PmldesignError, OSError):
    """A file cannot be read or written."""

    exit_code = 6


def require_format(name: str, stated: object) -> None:
    """Refuse a file of another format.

    Args:
        name: of the file.
        stated: the format that it states.

    Raises:
        FileError: another one than FORMAT.
    """
    if type(stated) is not int or stated != FORMAT:
        raise FileError(
            f"{name} has format {stated!r:.40}, and this version of pmldesign reads format {FORMAT}"
            " only; write it again, or read it with the version that wrote it"
        )


class VerificationError(PmldesignError):
    """A file claims what its own arrays do not prove, or a calibration what measurements refute."""

    exit_code = 7


class PartlyCheckedError(PmldesignError):
    """All checked claims of a file hold, but some claims were not checked."""

    exit_code = 8
    opening = "note"  # nothing is wrong
