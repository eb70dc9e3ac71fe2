"""Feed a file of numbers to `pmldesign stream`, and append its answers to another one, each once.

    python feed.py sums.npz counts.txt answers.csv --state sums.state [--follow]

Line t of counts.txt is step t, or with `--series north,south` the lines up to the t-th `step`: an
event (north,2) counts in the step that comes next. More are appended while this runs. The offset is
answers.csv itself: a step whose answer is there is not asked for again, and of a step that was
answered before a kill, but whose answer was lost on its way, `pmldesign stream` repeats the answer.
So this process, the stream, or both may be killed at any moment and started again.

The lock on answers.csv belongs to the open file, which the stream has too: a new process waits
until the stream of the one before has ended, and then counts the answers.
"""

from __future__ import annotations

import argparse
import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PAUSE = 0.2
"""Seconds between two looks at the end of the file."""


def feed(command: list[str], counts: Path, answers: Path, *, follow: bool) -> int:
    """Run the command until the file ends, or for ever; its exit code."""
    with answers.open("ab+") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        answered = complete_lines(out)
        stream = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out)
        assert stream.stdin is not None
        try:
            with counts.open("rb") as lines, stream.stdin as given:
                for step, line in steps(whole_lines(lines, follow=follow)):
                    if step > answered:
                        given.write(line)
                    elif not line:
                        given.flush()
                        if stream.poll() is not None:
                            break
                        time.sleep(PAUSE)
        except BrokenPipeError:
            pass  # the stream has ended, and its exit code tells why
        return stream.wait()


def complete_lines(out: BinaryIO) -> int:
    """How many answers a file has; what a kill has left of the last line is removed."""
    out.seek(0)
    content = out.read()
    out.truncate(content.rfind(b"\n") + 1)
    return content.count(b"\n")


def steps(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each step with its number and all lines of it; 0 and none where there is no further one yet.

    A line that begins with a number is a step, one of `step` ends one; all others, events and
    corrections, belong to the step behind them.
    """
    step, events = 0, b""
    for line in lines:
        first, _, number = line.partition(b",")
        mark = first.strip() == b"step"
        if not line:
            yield 0, b""
        elif mark or is_number(first):
            step += 1
            if not (mark and number):
                line = b"step,%d\n" % step if mark else b"%d,%s" % (step, line)
            yield step, events + line
            events = b""
        else:
            events += line


def is_number(text: bytes) -> bool:
    """Whether it is one, in plain digits: Python reads 1_0, which the stream refuses."""
    try:
        if b"_" in text:
            return False
        float(text)
    except ValueError:
        return False
    return True


def whole_lines(lines: BinaryIO, *, follow: bool) -> Iterator[bytes]:
    """The lines of a file that have an end; empty ones where there is no further one yet."""
    rest = b""
    while True:
        rest += lines.readline()
        if rest.endswith(b"\n"):
            yield rest
            rest = b""
        elif not follow:
            return
        else:
            yield b""


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, and feed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("strategy")
    parser.add_argument("counts", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--state", required=True)
    parser.add_argument("--follow", action="store_true")
    asked, options = parser.parse_known_args(arguments)
    command = ["pmldesign", "stream", asked.strategy, "--state", asked.state, *options]
    return feed(command, asked.counts, asked.answers, follow=asked.follow)


if __name__ == "__main__":
    sys.exit(main())
