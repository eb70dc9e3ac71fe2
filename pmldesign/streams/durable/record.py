"""The record of a stream as text: the answers of its steps, and the state behind the last of them.

    {"stream": 3, "identity": [...], "key": "..."} CHAIN     what it belongs to
    17,12.25,9.5,DIGEST,CHAIN                                step, answer, its standard deviation
                                                             (an answer for each of several series)
    {"after": 16, "time": 17, "encoder": ...} CHECK          the state, which completes a commit

Each CHAIN is a hash of its line and of the CHAIN before; a CHECK is so as well, but nothing follows
from it, so that states which are no longer needed can be left out. DIGEST is that of the input with
a key of the record: it tells whether an input that comes again is the same. Whoever has the record
can try out inputs; the state holds raw data in any case.

What follows the last complete commit was never answered (`log`) and does not count.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pmldesign.streams.encoder import dyadic
from pmldesign.streams.stream import Answer, Input

FORMAT = 3


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

    def chain(self, step: int) -> str:
        """The hash up to a step; 0 is before the first one."""
        return self.steps[step - 1].chain if step else _hash("", self.head)

    def digest(self, step: int, value: Input) -> str:
        """Of an input, as the stream takes it in."""
        numbers = value if isinstance(value, Sequence | np.ndarray) else (value,)
        text = ",".join([str(step), *(f"{dyadic(number):x}" for number in numbers)]).encode()
        return hashlib.blake2b(text, key=bytes.fromhex(self.key), digest_size=8).hexdigest()

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
