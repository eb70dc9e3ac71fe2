"""The files of a stream: each answer is on the disk before it leaves, with the state behind it.

Two files. STATE is the record: one append, flushed to the disk, commits the number of a
step, a digest of its input, its answer and the state behind it. STATE.log, a witness, then gets the
number of the step, the hash of the record up to it and a digest of the state, flushed as well; only
then the answer leaves. So

- a process that ends before the record is complete has taken nothing in: the next one goes on
  before that step, and nobody saw the noise that was drawn. If it ends later, the step is taken,
  and its answer is kept: it is answered again from there, never drawn again;
- a record that lacks a step of the log was cut, edited, or is an old one: it is refused. So is one
  that is more than a commit ahead of its log, a copy without the log or with an old one;
- the log is locked: two processes would answer the same step with different noise. A process that
  is forked off gives the lock up, and one whose files were replaced, lock and all, goes no further.

The record holds raw data and is written for its owner alone; the log holds none. Old copies of both
together cannot be told from the newest ones. States that are no longer needed are removed when they
take up most of the record, by a new file that replaces it. The record is text:

    {"stream": 3, "identity": [...], "key": "..."} CHAIN     what it belongs to
    17,12.25,9.5,DIGEST,CHAIN                                step, answer, its standard deviation
                                                             (an answer for each of several series)
    {"after": 16, "time": 17, "encoder": ...} CHECK          the state, which completes a commit
                                                             ("series": names, once they are known)

Each CHAIN is a hash of its line and of the CHAIN before; a CHECK is so as well, but nothing follows
from it, so that states which are no longer needed can be left out. DIGEST is that of the input with
a key of the record: it tells whether an input that comes again is the same. Whoever has the record
can try out inputs; the state holds raw data in any case. The log has no such key, and its digest of
the state is made with it: nothing can be tried out there. What follows the last complete commit was
never answered and does not count.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from pmldesign.errors import FileError
from pmldesign.streams.encoder import dyadic
from pmldesign.streams.stream import Answer, Input

FORMAT = 3

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
        step, chain, check = self._last_step(complete)
        if not self.path.exists():
            if seen:
                raise FileError(
                    f"{self.log.name} has {step} steps, but there is no state {self.path.name}: a "
                    "stream that was begun cannot be begun again; take new names"
                )
            return
        record = self._read()
        known = step <= record.position and record.chain(step) == (chain or record.chain(0))
        if not known or (step == record.position and check not in ("", record.check)):
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

    def _last_step(self, complete: bytes) -> tuple[int, str, str]:
        """The last step in the log, its hash, and the digest of the state, once there was one."""
        last = 0, "", ""
        try:
            for line in complete.decode("ascii").split("\n")[:-1]:
                step, chain, *check = line.split(" ")
                if int(step) <= last[0] or len(check) > 1:
                    raise ValueError
                last = int(step), chain, "".join(check)
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
        _append(self._witness, f"{position} {record.chain(position)} {record.check}\n")

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


@dataclass(slots=True)
class Step:
    """What is kept of a step.

    Attributes:
        answer: what it released.
        digest: of its input.
        chain: the hash of the record up to here.
    """

    answer: Answer
    digest: str
    chain: str


@dataclass
class Record:
    """Steps in their order, and the state behind the last of them.

    Attributes:
        identity: `Sums.identity` of the stream.
        key: of the digests.
        steps: those of complete commits.
        after: how many steps there were before the last commit.
        last: the line of the state.
        length: of the text with the last complete commit, in bytes.
        superseded: bytes of states in it that are no longer needed.
    """

    identity: list[float]
    key: str = field(default_factory=lambda: secrets.token_hex(32))
    steps: list[Step] = field(default_factory=list)
    after: int = 0
    last: str = ""
    length: int = 0
    superseded: int = 0

    @property
    def head(self) -> str:
        """The first line."""
        return _json({"stream": FORMAT, "identity": self.identity, "key": self.key})

    @property
    def position(self) -> int:
        """How many steps are answered."""
        return len(self.steps)

    @property
    def saved(self) -> dict[str, Any]:
        """The state, as `Stream.resume` takes it."""
        return {"identity": self.identity, **json.loads(self.last.rpartition(" ")[0])}

    @property
    def check(self) -> str:
        """The digest of the state."""
        return self._digest(self.last)

    def chain(self, step: int) -> str:
        """The hash up to a step; 0 is before the first one."""
        return self.steps[step - 1].chain if step else _hash("", self.head)

    def digest(self, step: int, value: Input) -> str:
        """The digest of an input, as the stream takes it in."""
        numbers = value if isinstance(value, Sequence | np.ndarray) else (value,)
        return self._digest(",".join([str(step), *(f"{dyadic(number):x}" for number in numbers)]))

    def _digest(self, text: str) -> str:
        key = bytes.fromhex(self.key)
        return hashlib.blake2b(text.encode(), key=key, digest_size=8).hexdigest()

    def commit(self, inputs: Sequence[Input], answers: list[Answer], state: dict[str, Any]) -> str:
        """Take steps in; the lines that are added to the text."""
        self.after = self.position
        for value, answer in zip(inputs, answers, strict=True):
            step = self.position + 1
            kept = Step(answer, self.digest(step, value), "")
            kept.chain = _hash(self.chain(step - 1), _step_line(step, kept))
            self.steps.append(kept)
        self.superseded += len(self.last)
        line = _json({"after": self.after, **state})
        self.last = f"{line} {_hash(self.chain(self.position), line)}\n"
        lines = self._step_lines(self.after) + self.last
        self.length += len(lines)
        return lines

    def text(self) -> str:
        """All of it, without states that are no longer needed."""
        lines = f"{self.head} {self.chain(0)}\n{self._step_lines(0)}{self.last}"
        self.length, self.superseded = len(lines), 0
        return lines

    def _step_lines(self, first: int) -> str:
        return "".join(
            f"{_step_line(step, kept)},{kept.chain}\n"
            for step, kept in enumerate(self.steps[first:], first + 1)
        )


def read_record(text: str) -> Record:
    """A record up to its last complete commit.

    Raises:
        ValueError: not even the first line is one of a record.
    """
    head, *lines = text.split("\n")
    record = Record(**_checked(head, "", "stream"))
    chain = record.chain(0)
    length, pending = len(head) + 1, list[Step]()
    for line in lines[:-1]:  # behind the last line end nothing is complete
        length += len(line) + 1
        try:
            if line.startswith("{"):
                state = _checked(line, chain, "after")
                if state["time"] != record.position + len(pending):
                    break
                record.superseded += len(record.last)
                record.steps += pending
                record.after, record.last = state["after"], line + "\n"
                record.length, pending = length, []
            else:
                step = _read_step(line, record.position + len(pending) + 1, chain)
                pending.append(step)
                chain = step.chain
        except (ValueError, KeyError, TypeError):
            break
    return record


def _checked(line: str, before: str, wanted: str) -> dict[str, Any]:
    """The object of a line whose hash fits."""
    content, _, found = line.rpartition(" ")
    parts: dict[str, Any] = json.loads(content)
    if _hash(before, content) != found or wanted not in parts:
        raise ValueError("the hash of a line does not fit")
    if wanted == "stream" and parts.pop(wanted) != FORMAT:
        raise ValueError("the record has another format")
    return parts


def _read_step(line: str, expected: int, before: str) -> Step:
    content, _, chain = line.rpartition(",")
    number, *numbers, digest = content.split(",")
    if int(number) != expected or _hash(before, content) != chain:
        raise ValueError("the hash of a line does not fit")
    *values, deviation = map(float, numbers)
    return Step(Answer(values[0] if len(values) == 1 else tuple(values), deviation), digest, chain)


def _step_line(number: int, step: Step) -> str:
    answer = ",".join(map(repr, step.answer.numbers))
    return f"{number},{answer},{step.digest}"


def _hash(before: str, line: str) -> str:
    return hashlib.blake2b(f"{before} {line}".encode(), digest_size=8).hexdigest()


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"))
