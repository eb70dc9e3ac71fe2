"""Writing a file completely or not at all: under a temporary name in its folder, then renamed.

Ctrl-C, TERM and HUP wait until the file is complete. Otherwise Python would raise their exceptions
between any two of its steps: a file and its payment could be separated, and libraries would leave
archives half closed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, Literal

from pmldesign.errors import FileError, InvalidInputError, PmldesignError

PathName = str | os.PathLike[str]
written: deque[PathName] = deque(maxlen=20)
"""The files that were completed last, until a caller clears the list."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def as_path(path: Any, name: str = "path") -> Path:
    """A path, whatever it was given as.

    Raises:
        InvalidInputError: neither a text nor a path.
    """
    try:
        return Path(path)
    except TypeError:
        from pmldesign.arguments import shown  # numpy; a command begins without it

        raise InvalidInputError(
            f"{name} must be the name of a file, a text or a Path, got {shown(path)}"
        ) from None


def check_writable(path: PathName, what: str = "", *endings: str) -> None:
    """Refuse a path that cannot be written; called before long work.

    Args:
        path: of the file.
        what: content of the file, if only some endings are accepted.
        endings: those.

    Raises:
        FileError: another ending; the path is a folder or a device, or its folder is missing or
            takes no new files.
    """
    path = as_path(path)
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
        The open temporary file, in the same folder; removed if the block fails in any way. Ctrl-C
        waits until the file is complete.

    Raises:
        FileError: the system refuses to write.
    """
    check_writable(path)
    target = Path(path).resolve()
    temporary = target.with_name(f".pmldesign-{secrets.token_hex(8)}.tmp")
    text: dict[str, str] = (
        {} if mode == "wb" else {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    )
    with undisturbed():
        try:
            with temporary.open(mode.replace("w", "x"), **text) as handle:  # type: ignore[call-overload]
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)
            written.append(path)
        except OSError as error:
            if isinstance(error, PmldesignError):
                raise
            raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextmanager
def undisturbed(note: str = "") -> Iterator[None]:
    """Let Ctrl-C, TERM and HUP wait until the block is done.

    Args:
        note: for standard error when one of them comes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def wait(number: int, _frame: FrameType | None) -> None:
        seen.append(number)
        os.write(2, note.encode())

    before = {
        number: signal.signal(number, wait)
        for number in SIGNALS
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if seen:
            signal.raise_signal(seen[0])


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
