"""Writing a file completely or not at all: under a temporary name in its folder, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from pmldesign.errors import FileError, PmldesignError

PathName = str | os.PathLike[str]


def check_writable(path: PathName, what: str = "", *endings: str) -> None:
    """Refuse a path that cannot be written; called before long work.

    Args:
        path: of the file.
        what: it is to hold, where only some endings will do.
        endings: those.

    Raises:
        FileError: another ending; the path is a folder or a device, or its folder is missing or
            takes no new files.
    """
    path = Path(path)
    if endings and path.suffix.lower() not in endings:
        raise FileError(f"cannot write {str(path)!r}: {what} ends in {', '.join(endings)}")
    try:
        folder = path.resolve().parent
        if path.is_dir():
            raise FileError(f"cannot write {str(path)!r}: it is a folder; name a file in it")
        if path.exists() and not path.is_file():
            raise FileError(f"cannot write {str(path)!r}: it is not a regular file")
        if not folder.is_dir():
            raise FileError(f"cannot write {str(path)!r}: there is no folder {str(folder)!r}")
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, PmldesignError):
            raise
        raise FileError(f"cannot write {str(path)!r}: {error}") from None
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FileError(
            f"cannot write {str(path)!r}: the folder {str(folder)!r} takes no new files:"
            f" {error.strerror or error}"
        ) from None


@contextmanager
def atomic_write(path: PathName, mode: Literal["w", "wb"]) -> Iterator[IO[Any]]:
    """Open a file that appears under its name only when everything is written.

    Args:
        path: an existing file is replaced and keeps its permissions; a link keeps pointing.
        mode: "w" for UTF-8 text, "wb" for bytes.

    Yields:
        The open temporary file, in the same folder; removed if the block fails in any way.

    Raises:
        FileError: the system refuses to write.
    """
    check_writable(path)
    target = Path(path).resolve()
    temporary = target.with_name(f".pmldesign-{secrets.token_hex(8)}.tmp")
    text: dict[str, str] = (
        {} if mode == "wb" else {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    )
    try:
        with temporary.open(mode.replace("w", "x"), **text) as handle:  # type: ignore[call-overload]
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except OSError as error:
        if isinstance(error, PmldesignError):
            raise
        raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make sure that names of files survive a crash."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise FileError(f"cannot open {str(folder)!r}: {error.strerror or error}") from None
    try:
        os.fsync(number)
    finally:
        os.close(number)
