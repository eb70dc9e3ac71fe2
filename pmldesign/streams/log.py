"""The files of a stream: each answer is on the disk before it leaves, with the state behind it.

STATE is a SQLite file (`pmldesign.store`), for its owner alone, as the state holds raw data. The
number of a step is the key of its row: no step is ever answered twice. One transaction writes all
steps of a commit and the state behind them. Then STATE.log, the witness, gets the number of the
last step, the hash up to it and a digest of the state; only then the answers leave. So

- a process that ends before its transaction has taken in no step: the next process continues before
  that step, and no one saw the noise that was drawn. If it ends later, the step is taken, and its
  answer is stored: it is read from there, never drawn again;
- a state that lacks a step of its witness was cut, edited, or is an old one: it is refused. So is
  one that is more than a commit ahead of its witness, a copy without a witness or with an old one;
- the state is locked: two processes would answer the same step with different noise. A process that
  is forked off takes no step, and one whose files were replaced goes no further.

Old copies of both files together cannot be distinguished from the newest ones.

    stream   identity: of its strategy, workload and guarantee; key: of the digests
    step     number, answer with its standard deviation, input: a digest, chain
    state    after: the steps before the last commit; content: as JSON; digest

A chain is the hash of its row and the chain before. The digests of inputs, which identify repeated
steps, and the digest of the state use the key, which is only in STATE. Anyone who has the state can
try out inputs, and finds raw data in any case; the witness offers nothing to try out.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from pmldesign.errors import FileError
from pmldesign.store import Connection, Kind, connect, flush, refusals, transaction
from pmldesign.streams.encoder import dyadic
from pmldesign.streams.stream import Answer, Input

TABLES = """
CREATE TABLE stream (one INTEGER PRIMARY KEY, identity TEXT, key TEXT);
CREATE TABLE step (number INTEGER PRIMARY KEY, answer TEXT, input TEXT, chain TEXT);
CREATE TABLE state (one INTEGER PRIMARY KEY, after INTEGER, content TEXT, digest TEXT)
"""
WIDTH = 96
"""Bytes of a witness, all in one sector of a disk: written completely or not at all."""
_opened: WeakSet[Log] = WeakSet()


def _forked() -> None:
    """A child gives the lock up, so that a new process can go on when its parent has ended."""
    for log in _opened:
        log.close()


os.register_at_fork(after_in_child=_forked)
Row = tuple[int, str, str, str]
"""Of a step: its number, answer, digest of its input, and chain."""


class Log:
    """The files of a stream, locked.

    Args:
        path: the state; the witness has ".log" added to its name. If there is neither, both are
            made by the first commit.

    Attributes:
        identity: `Sums.identity` of the stream; None before the first commit.
        position: how many steps are answered.
        state: behind the last step when the files were opened.

    Raises:
        FileError: a file cannot be read or written, is damaged or in use, or is not the newest.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, path.with_name(path.name + ".log")
        self.identity: list[float] | None = None
        self.position, self.state = 0, dict[str, Any]()
        self._key, self._chain, self._digest = "", "", ""
        self._database: Connection | None = None
        self._witness = -1
        _opened.add(self)
        try:
            if self.log.exists():
                self._open_witness(os.O_RDWR)
                if self.path.exists():
                    self._open(new=False)
                self._go_on()
            elif self.path.exists():
                raise self._not_newest("there is no log")
        except FileError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise FileError(f"cannot use {str(path)!r}: {error.strerror or error}") from None

    def commit(
        self,
        identity: list[float],
        inputs: Sequence[Input],
        answers: Sequence[Answer],
        state: dict[str, Any],
    ) -> None:
        """Write steps and the state behind them, then the witness.

        Args:
            identity: of the stream.
            inputs: of the steps.
            answers: to them.
            state: behind them.

        Raises:
            OSError: they are not on the disk, or it is unknown whether they are.
        """
        if self._database is None or self._database.empty:
            if self._witness < 0:
                self._open_witness(os.O_RDWR | os.O_CREAT | os.O_EXCL)
            self._open(new=True)
        self._require_in_place()
        begins = self.identity is None
        if begins:
            self.identity, self._key = identity, secrets.token_hex(32)
            self._chain = self._first_chain
        rows = self._rows(inputs, answers)
        content = json.dumps(state, separators=(",", ":"))
        position, chain = rows[-1][0], rows[-1][-1]
        digest = self._keyed(f"{self.position} {position} {chain} {content}")
        assert self._database is not None
        with refusals(self.path, Kind.STREAM), transaction(self._database) as database:
            if begins:
                head = (json.dumps(identity), self._key)
                database.execute("INSERT INTO stream VALUES (1, ?, ?)", head)
                database.execute("INSERT INTO state VALUES (1, 0, '', '')")
            database.executemany("INSERT INTO step VALUES (?, ?, ?, ?)", rows)
            values = self.position, content, digest
            database.execute("UPDATE state SET after = ?, content = ?, digest = ?", values)
        self.position, self._chain, self._digest = position, chain, digest
        self._write_witness()

    def answers(self, first: int = 1) -> Iterator[Answer]:
        """The answers from a step on."""
        return (_answer(row) for row in self._kept(first))

    def again(self, number: int, value: Input) -> Answer | None:
        """The answer of a step that was taken; None if its input was another one."""
        row = next(self._kept(number))
        return _answer(row) if row[2] == self._input(number, value) else None

    def close(self) -> None:
        """Close both files, which ends the lock."""
        if self._database is not None:
            self._database.close()
        if self._witness >= 0:
            os.close(self._witness)
        self._database, self._witness = None, -1

    def _open_witness(self, flags: int) -> None:
        """Open and lock the witness.

        The lock of SQLite ends when this process closes any other handle of the state, this one
        does not.
        """
        try:
            self._witness = os.open(self.log, flags, 0o600)
            fcntl.flock(self._witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileExistsError):
            raise FileError(
                f"{self.path.name} is in use by another stream; end that one first"
            ) from None
        if flags & os.O_CREAT:  # its name is on the disk before there is a state
            folder = os.open(self.log.parent, os.O_RDONLY)
            flush(folder)
            os.close(folder)

    def _open(self, *, new: bool) -> None:
        if self._database is not None:
            self._database.close()
        self._database = connect(self.path, Kind.STREAM, TABLES, new=new, alone=True)
        self._place = self.path.stat()

    def _require_in_place(self) -> None:
        """Refuse, by OSError, to continue if the files were replaced by others."""
        for path, opened in ((self.log, os.fstat(self._witness)), (self.path, self._place)):
            if not os.path.samestat(opened, path.stat()):
                raise OSError(errno.ESTALE, f"{path.name} was replaced")

    def _go_on(self) -> None:
        """Read both files, and complete the last commit."""
        step, chain, digest = self._seen()
        after = self._load()
        if after is None:
            if step:
                raise FileError(
                    f"{self.log.name} has {step} steps, but there is no state {self.path.name}: a "
                    "stream that was begun cannot be begun again; use new names"
                )
            return
        newest = step < self.position or digest == self._digest
        if step > self.position or (step and self._chain_at(step) != chain) or not newest:
            raise FileError(
                f"{self.path.name} is damaged, cut or an old one: up to step {step} it is not what "
                f"{self.log.name} has seen; steps that were answered may not be answered again"
            )
        if step not in (after, self.position):
            raise self._not_newest(f"its log has {step} steps, fewer than were taken")
        if step < self.position:
            self._write_witness()

    def _seen(self) -> tuple[int, str, str]:
        """The last step in the witness, the hash up to it, and the digest of the state then."""
        content = os.pread(self._witness, 2 * WIDTH, 0)
        if not content:
            return 0, "", ""
        try:
            step, chain, digest = content.decode("ascii").split()
            if len(content) != WIDTH or int(step) < 1:
                raise ValueError
        except ValueError:
            raise FileError(
                f"{self.log.name} is damaged, and a stream without its log cannot go on: begin"
                " another one for new data"
            ) from None
        return int(step), chain, digest

    def _load(self) -> int | None:
        """Read the state; the number of steps before its last commit, None before the first one."""
        if self._database is None or self._database.empty:
            return None
        with refusals(self.path, Kind.STREAM):
            heads = self._database.execute("SELECT identity, key FROM stream").fetchall()
            states = self._database.execute("SELECT after, content, digest FROM state").fetchall()
            last = "SELECT number FROM step ORDER BY number DESC LIMIT 1"
            numbers = self._database.execute(last).fetchall()
        if not heads and not states and not numbers:
            return None
        try:
            ((identity, self._key),), ((after, content, self._digest),) = heads, states
            self.identity, self.state = json.loads(identity), json.loads(content)
            ((self.position,),) = numbers
            (row,) = self._kept(self.position)
            self._chain = row[-1]
            digest = self._keyed(f"{after} {self.position} {self._chain} {content}")
            if self.state["time"] != self.position or digest != self._digest:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise self._damaged() from None
        return int(after)

    def _kept(self, first: int) -> Iterator[Row]:
        """The rows of the steps from one on, whose hashes fit."""
        assert self._database is not None
        chain = self._chain_at(first - 1)
        statement = (
            "SELECT number, answer, input, chain FROM step WHERE number >= ? ORDER BY number"
        )
        with refusals(self.path, Kind.STREAM):
            for number, row in enumerate(self._database.execute(statement, (first,)), first):
                chain = _hash(chain, row[:-1])
                if row[0] != number or row[-1] != chain:
                    raise self._damaged()
                yield row

    def _chain_at(self, step: int) -> str:
        """The hash up to a step; 0 is before the first one."""
        assert self._database is not None
        if step == 0:
            return self._first_chain
        statement = "SELECT chain FROM step WHERE number = ?"
        found = self._database.execute(statement, (step,)).fetchall()
        return str(found[0][0]) if found else ""

    @property
    def _first_chain(self) -> str:
        return _hash("", (json.dumps(self.identity), self._key))

    def _rows(self, inputs: Sequence[Input], answers: Sequence[Answer]) -> list[Row]:
        """The rows of the next steps."""
        rows, chain = [], self._chain
        for number, (value, answer) in enumerate(
            zip(inputs, answers, strict=True), self.position + 1
        ):
            row = number, ",".join(map(repr, answer.numbers)), self._input(number, value)
            chain = _hash(chain, row)
            rows.append((*row, chain))
        return rows

    def _input(self, step: int, value: Input) -> str:
        """The digest of an input, as the stream takes it in."""
        numbers = value if isinstance(value, Sequence | np.ndarray) else (value,)
        return self._keyed(",".join([str(step), *(f"{dyadic(number):x}" for number in numbers)]))

    def _keyed(self, text: str) -> str:
        key = bytes.fromhex(self._key)
        return hashlib.blake2b(text.encode(), key=key, digest_size=16).hexdigest()

    def _write_witness(self) -> None:
        line = f"{self.position} {self._chain} {self._digest}".ljust(WIDTH - 1) + "\n"
        os.pwrite(self._witness, line.encode(), 0)
        flush(self._witness)

    def _damaged(self) -> FileError:
        return FileError(
            f"{self.path.name} is damaged, and cannot go on: begin another stream for new data"
        )

    def _not_newest(self, what: str) -> FileError:
        return FileError(
            f"{self.path.name} may not be used: {what}. A copy may not be used without its log, nor"
            " with an old one"
        )


def _answer(row: Row) -> Answer:
    *values, deviation = map(float, row[1].split(","))
    return Answer(values[0] if len(values) == 1 else tuple(values), deviation)


def _hash(before: str, parts: Sequence[object]) -> str:
    text = ",".join([before, *map(str, parts)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
