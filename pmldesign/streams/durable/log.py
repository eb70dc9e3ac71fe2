"""The files of a stream: each answer is on the disk before it leaves, with the state behind it.

Two files. STATE is the record (`record`): one append, flushed to the disk, commits the number of a
step, a digest of its input, its answer and the state behind it. STATE.log, a witness, then gets the
number of the step and the hash of the record up to it, flushed as well; only then the answer
leaves. So

- a process that ends before the record is complete has taken nothing in: the next one goes on
  before that step, and nobody saw the noise that was drawn. If it ends later, the step is taken,
  and its answer is kept: it is answered again from there, never drawn again;
- a record that lacks a step of the log was cut, edited, or is an old one: it is refused. So is one
  that is more than a commit ahead of its log, a copy without the log or with an old one;
- the log is locked: two processes would answer the same step with different noise. A process that
  is forked off gives the lock up, and one whose files were replaced, lock and all, goes no further.

The record holds raw data and is written for its owner alone; the log holds none. Old copies of both
together cannot be told from the newest ones. States that are no longer needed are removed when they
take up most of the record, by a new file that replaces it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from weakref import WeakSet

from pmldesign.errors import FileError
from pmldesign.streams.durable.record import Record, read_record

SPARE = 2**20
"""Bytes of states that are no longer needed which a record may have."""

_open: WeakSet[Log] = WeakSet()


def _forked() -> None:
    for log in _open:
        log.close()


os.register_at_fork(after_in_child=_forked)


class Log:
    """The files of a stream, locked.

    Args:
        path: the record; the log is beside it, with ".log" added to its name. Where there is
            neither, both are made by the first commit.

    Attributes:
        record: what is on the disk; None before the first commit.

    Raises:
        FileError: a file cannot be read or written, is damaged or in use, or is not the newest.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, path.with_name(path.name + ".log")
        self.record: Record | None = None
        self._witness = self._handle = -1
        _open.add(self)
        try:
            if self.log.exists():
                self._open_log(os.O_RDWR)
                self._go_on()
            elif self.path.exists():
                raise self._not_newest("there is no log")
        except FileError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise FileError(f"cannot use {str(path)!r}: {error.strerror or error}") from None

    @property
    def position(self) -> int:
        """How many steps are answered."""
        return 0 if self.record is None else self.record.position

    def commit(self, record: Record, lines: str) -> None:
        """Write a commit of the record, then its step into the log; raises OSError."""
        self._require_in_place()
        if self.record is not None:
            _append(self._handle, lines)
        else:
            if self._witness < 0:
                self._open_log(os.O_RDWR | os.O_CREAT | os.O_EXCL)
            self._replace(record)
        self._witness_step(record)
        if record.superseded > max(SPARE, record.length // 2):
            self._replace(record)
        self.record = record

    def close(self) -> None:
        """Close both files, which ends the lock."""
        for handle in (self._handle, self._witness):
            if handle >= 0:
                os.close(handle)
        self._handle = self._witness = -1

    def _require_in_place(self) -> None:
        """Refuse, by OSError, to go on with files that others were put in the place of."""
        for path, handle in ((self.log, self._witness), (self.path, self._handle)):
            if handle >= 0 and not os.path.samestat(os.fstat(handle), path.stat()):
                raise OSError(errno.ESTALE, f"{path.name} was replaced")

    def _open_log(self, flags: int) -> None:
        """Lock the log; a second process would have different noise for the same steps."""
        in_use = FileError(f"{self.path.name} is in use by another stream; end that one first")
        try:
            self._witness = os.open(self.log, flags | os.O_APPEND, 0o600)
            fcntl.flock(self._witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileExistsError):
            raise in_use from None

    def _go_on(self) -> None:
        """Read both files, and complete the last commit."""
        seen = self.log.read_bytes()
        complete = seen[: seen.rfind(b"\n") + 1]
        step, chain = self._last_step(complete)
        if not self.path.exists():
            if seen:
                raise FileError(
                    f"{self.log.name} has {step} steps, but there is no state {self.path.name}: a "
                    "stream that was begun cannot be begun again; take new names"
                )
            return
        record = self._read()
        if record.position < step or record.chain(step) != (chain or record.chain(0)):
            raise FileError(
                f"{self.path.name} is damaged, cut or an old one: up to step {step} it is not what "
                f"{self.log.name} has seen; steps that were answered may not be answered again"
            )
        if step not in (record.after, record.position):
            raise self._not_newest(f"its log has {step} steps, fewer than were taken")
        self._handle = os.open(self.path, os.O_RDWR | os.O_APPEND)
        os.ftruncate(self._handle, record.length)
        os.fsync(self._handle)
        os.ftruncate(self._witness, len(complete))
        if step < record.position:
            self._witness_step(record)
        self.record = record

    def _last_step(self, complete: bytes) -> tuple[int, str]:
        """The last step in the log, with its hash."""
        last = 0, ""
        try:
            for line in complete.decode("ascii").split("\n")[:-1]:
                step, chain = line.split(" ")
                if int(step) <= last[0]:
                    raise ValueError
                last = int(step), chain
        except ValueError:
            raise FileError(
                f"{self.log.name} is damaged, or of an earlier version: its lines are steps with "
                "hashes; a stream whose log is lost cannot go on, begin another one for new data"
            ) from None
        return last

    def _read(self) -> Record:
        try:
            return read_record(self.path.read_bytes().decode("ascii", "replace"))
        except (ValueError, KeyError, TypeError):
            raise FileError(
                f"{self.path.name} is damaged, no state, or one of an earlier version, which cannot"
                " go on: begin another stream for new data"
            ) from None

    def _not_newest(self, what: str) -> FileError:
        return FileError(
            f"{self.path.name} may not be used: {what}. A copy may not be used without its log, nor"
            " with an old one"
        )

    def _witness_step(self, record: Record) -> None:
        position = record.position
        _append(self._witness, f"{position} {record.chain(position)}\n")

    def _replace(self, record: Record) -> None:
        """Write the record anew."""
        spare = self.path.with_name(self.path.name + ".new")
        handle = os.open(spare, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            _append(handle, record.text())
            spare.replace(self.path)
        except BaseException:
            os.close(handle)
            spare.unlink(missing_ok=True)
            raise
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = handle
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _append(handle: int, text: str) -> None:
    """Write every byte and flush it to the disk, or fail: a full disk takes a part of them."""
    data = text.encode()
    while data:
        data = data[os.write(handle, data) :]
    os.fsync(handle)
