"""A stream that outlives its process: a state file, and a log of the steps that were taken.

Before the answer of step t leaves, first the state behind it is written (a new file, flushed to the
disk, renamed), then "t" is added to the log, which is flushed as well. So

- a process that ends between the two has drawn an answer that nobody saw: the state is a step ahead
  of the log, and the stream goes on from there; that answer is lost, not drawn again;
- a state behind its log has been used already: it is refused, and so is a state that is more than
  a step ahead, which is a copy without its log. The log holds no data, and must not be rolled back;
- the log is locked: two processes would answer the same step with different noise.

The state holds raw data and is written for its owner alone.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.streams.owned import Owned
from pmldesign.streams.stream import Answer, Stream


class Journal(Owned):
    """Takes steps of a stream durably.

    Args:
        stream: at its beginning; where the state file exists it goes on from there.
        path: the state file; the log is beside it, with ".log" added to its name.

    Raises:
        FileError: a file cannot be read or written, or the state was used already.
    """

    def __init__(self, stream: Stream, path: Path) -> None:
        super().__init__()
        self.stream, self.path = stream, path
        self.log = path.with_name(path.name + ".log")
        if path.is_dir():
            raise FileError(f"cannot use {str(path)!r}: it is a folder; name a file")
        if path.exists() and not self.log.exists():  # the log is made before the first state
            raise self._copied(0)
        try:
            self._handle = os.open(self.log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise FileError(f"cannot use {str(path)!r}: {error.strerror or error}") from None
        try:
            self._lock()
            committed = self._committed()
            if path.exists():
                self._resume(committed)
            elif committed:
                raise FileError(
                    f"{self.log.name} has {committed} steps, but there is no state "
                    f"{path.name}: a stream that was begun cannot be begun again; take new names"
                )
            if self.stream.time > committed:  # an answer that nobody saw is not drawn again
                self._commit()
        except FileError:
            os.close(self._handle)
            raise
        except OSError as error:
            os.close(self._handle)
            raise FileError(f"cannot use {str(path)!r}: {error.strerror or error}") from None

    def step(self, value: float) -> Answer:
        """As `Stream.step`; committed before it returns."""
        with self._turn:
            answer = self.stream.step(value)
            self._turn.begun = True
            try:
                self._write()
                self._commit()
            except OSError as error:
                raise FileError(
                    f"cannot write {str(self.path)!r}: {error.strerror or error}; the answer of "
                    f"step {self.stream.time} is withheld"
                ) from None
            return answer

    def _lock(self) -> None:
        """Refuse a second process, whose noise for the same steps would be different."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(
                f"{self.path.name} is in use by another stream; end that one first"
            ) from None

    def _commit(self) -> None:
        """Add the step to the log."""
        _write_all(self._handle, f"{self.stream.time}\n".encode())
        os.fsync(self._handle)

    def close(self) -> None:
        """Close the log."""
        os.close(self._handle)

    def _committed(self) -> int:
        """Steps in the log; a last line that was cut off does not count."""
        text = self.log.read_text()
        if text and not text.endswith("\n"):
            os.ftruncate(self._handle, text.rfind("\n") + 1)
        lines = text.split("\n")[:-1]
        try:
            return max(map(int, lines), default=0)
        except ValueError:
            raise FileError(
                f"{self.log.name} is damaged: its lines are numbers of steps; a stream whose log "
                "is lost cannot go on"
            ) from None

    def _resume(self, committed: int) -> None:
        try:
            saved = json.loads(self.path.read_text())
            time = int(saved["time"])
            if committed <= time <= committed + 1:
                self.stream.resume(saved)
        except InvalidInputError as error:
            raise FileError(f"{self.path.name}: {error}; take another name") from None
        except (ValueError, KeyError, TypeError) as error:
            raise FileError(f"{self.path.name} is damaged or no state: {error}") from None
        if time < committed:
            raise FileError(
                f"{self.path.name} is at step {time}, but step {committed} was answered already: "
                "an old state may not be used again"
            )
        if time > committed + 1:
            raise self._copied(committed)

    def _copied(self, committed: int) -> FileError:
        return FileError(
            f"{self.log.name} beside {self.path.name} has {committed} steps, fewer than were taken:"
            " a copy may not be used without its log"
        )

    def _write(self) -> None:
        text = json.dumps(self.stream.save())
        spare = self.path.with_name(self.path.name + ".new")
        handle = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            try:
                _write_all(handle, text.encode())
                os.fsync(handle)
            finally:
                os.close(handle)
            spare.replace(self.path)
        finally:
            spare.unlink(missing_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _write_all(handle: int, data: bytes) -> None:
    """Write every byte, or fail: a full disk takes a part of them."""
    while data:
        data = data[os.write(handle, data) :]
