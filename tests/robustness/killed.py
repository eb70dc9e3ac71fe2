"""Streams that are killed at random moments: every answer and every input once, and no noise twice.

    python tests/robustness/killed.py [kills] [seed]

Each kind of stream is killed so often, and some of their processes find a full disk.

*By hand.*
 A supervisor runs `pmldesign stream` with a state, kills it (SIGKILL), and starts it again,
until all inputs are answered; then another stream begins. It feeds from the step behind
`--position`, or numbered lines from the first answer that it has not read, in groups of 1 to 6, and
starts a second process on the same state now and then. There is so little noise that an answer
shows whether each input was counted once; what is left tells whether two steps have the same noise.

*As a service.* examples/service/feed.py feeds a file that grows, cut anywhere, and appends answers
to another file. It is killed, with the stream or alone, or the stream is, and started again at
once, or a second one before. In the end the file of answers has every step once, in order, and is
what the state repeats.

*With events.* The same for two series, a step of which is any number of lines.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from click.testing import CliRunner

from pmldesign.cli import main as main_command
from pmldesign.designs import factorize
from pmldesign.files import write_strategy

STEPS = 60
EPSILON = "2e3"
"""So large that the noise of a sum is far below 1."""
LONGEST = 0.15
"""Seconds until a process is killed, at most."""


class Supervisor:
    """A stream, the answers that were read, and what was wrong."""

    def __init__(
        self, file: Path, matrix: np.ndarray, state: Path, rng: np.random.Generator
    ) -> None:
        self.file, self.matrix, self.state, self.rng = file, matrix, state, rng
        self.read: dict[int, str] = {}
        self.inputs = rng.permutation(STEPS) + 1
        self.wrong: Counter[str] = Counter()
        self.kills = 0

    def run(self, kills: int) -> None:
        """Start and kill processes until all is answered, or so many were killed; then finish."""
        while len(self.read) < STEPS and not self.wrong:
            end = self.kills < kills
            self._process(self._lines(), self.rng.uniform(0, LONGEST) if end else None)
        if not self.wrong:
            self._check()

    def shown(self, option: str) -> str:
        """What the command says of the state."""
        found = CliRunner().invoke(main_command, ["stream", option, str(self.state)])
        if found.exit_code:
            self.wrong[f"{option}: {found.stderr}"] += 1
        return found.stdout

    def _lines(self) -> str:
        if self.rng.random() < 0.5:  # by position; the answers before it are kept
            position = int(self.shown("--position"))
            self._note(self.shown("--replay"))
            return "".join(f"{x}\n" for x in self.inputs[position:])
        first = next(t for t in range(1, STEPS + 2) if t not in self.read)
        numbered = enumerate(self.inputs[first - 1 :], first)
        return "".join(f"{t},{x}\n" for t, x in numbered)

    def _process(self, lines: str, seconds: float | None) -> None:
        arguments = ["stream", str(self.file), "--epsilon", EPSILON, "--delta", "1e-6", "--state"]
        arguments += [str(self.state), "--commit", str(self.rng.integers(1, 7))]
        full = None if seconds is None else self._full()
        first, second = started(arguments, lines, full), None
        if seconds is not None:
            time.sleep(seconds)
            if self.rng.random() < 0.1:
                second = started(arguments, lines, full)
                self._ended(*second, {0, 2, 6})
            os.kill(first[0], signal.SIGKILL)
        # one of two is refused: the state is in use, or all of its steps are taken
        self._ended(*first, {0, 2, 6} if second else {0} if full is None else {0, 6})

    def _full(self) -> int | None:
        """For a process in ten: so many bytes a file may have, about as many as the state has."""
        size = self.state.stat().st_size if self.state.exists() else 20_000
        return int(size * self.rng.uniform(0, 1.5)) if self.rng.random() < 0.1 else None

    def _ended(self, child: int, out: int, codes: set[int]) -> None:
        """Wait for the end of a process, and read what it answered."""
        with os.fdopen(out) as handle:
            self._note(handle.read())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.kills += code == -signal.SIGKILL
        if code not in codes | {-signal.SIGKILL}:
            self.wrong[f"exit code {code}"] += 1

    def _note(self, answers: str) -> None:
        for line in answers.splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # cut off by the kill
            step = int(line.split(",")[0])
            if self.read.setdefault(step, line) != line:
                self.wrong["two answers to one step"] += 1

    def _check(self) -> None:
        if self.shown("--replay") != "".join(self.read[t] for t in range(1, STEPS + 1)):
            self.wrong["kept answers are others"] += 1
        rows = [self.read[t].split(",")[1:-1] for t in range(1, STEPS + 1)]
        errors = np.array(rows, dtype=float) - np.cumsum(self.inputs.reshape(STEPS, -1), axis=0)
        if np.abs(errors).max() > 0.4:
            self.wrong["an input counts twice, or not at all"] += 1
        # errors are A C^-1 noise
        noise = np.sort((self.matrix @ np.diff(errors, axis=0, prepend=0.0)).ravel())
        if np.diff(noise).min() < 1e-7 * noise.std():
            self.wrong["noise twice"] += 1


class Service(Supervisor):
    """The same by examples/service/feed.py, which appends the answers to a file."""

    options: tuple[str, ...] = ()

    def text(self) -> str:
        """What is to be fed."""
        return "".join(f"{x}\n" for x in self.inputs)

    def run(self, kills: int) -> None:
        self.counts, self.answers = (self.state.with_suffix(end) for end in (".txt", ".csv"))
        self.answers.touch()
        text, written = self.text(), 0
        while self.answers.read_bytes().count(b"\n") < STEPS and not self.wrong:
            end = self.kills < kills
            more = int(self.rng.integers(0, len(text) // 5)) if end else len(text)
            with self.counts.open("a") as handle:
                handle.write(text[written : written + more])
            written += more
            self._fed(end)
        for line in self.answers.read_text().splitlines(keepends=True):
            if int(line.split(",")[0]) != len(self.read) + 1:
                self.wrong["answers are not in order, each once"] += 1
            self.read[len(self.read) + 1] = line
        if not self.wrong:
            self._check()

    def _fed(self, end: bool) -> None:
        fed = [self._feeder(end)]
        if end and self.rng.random() < 0.1:  # it waits until the stream of the first has ended
            fed.append(self._feeder(end))
        # those that go on until they are killed come first: the others may wait for one of them
        for child, doomed, full in sorted(fed, key=lambda feeder: feeder[1] is not None):
            if doomed is None and end:
                time.sleep(self.rng.uniform(0, LONGEST))
                if self.rng.random() < 0.5:
                    os.kill(child, signal.SIGKILL)  # its stream goes on for a while
                else:
                    os.killpg(child, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            self.kills += abs(code) == signal.SIGKILL
            ends = {signal.SIGKILL} if end else {0}
            if abs(code) not in (ends if full is None else {*ends, 6}):
                self.wrong[f"exit code {code} of the feeder"] += 1

    def _feeder(self, end: bool) -> tuple[int, float | None, int | None]:
        """Its process, when its stream is killed, and from how many bytes its disk is full."""
        full = self._full() if end else None
        doomed = self.rng.uniform(0, LONGEST) if end and self.rng.random() < 0.3 else None
        options = ["--commit", str(self.rng.integers(1, 7)), "--epsilon", EPSILON, "--delta"]
        options += ["1e-6", "--state", str(self.state), *["--follow"] * end, *self.options]
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            feeder = examples()
            feeder.PAUSE = 0.002
            feeder.subprocess.Popen = partial(Forked, doomed, full)
            code = 98
            try:
                code = feeder.main([str(self.file), str(self.counts), str(self.answers), *options])
            finally:
                os._exit(abs(code))
        os.setpgid(child, child)  # whoever of the two is first
        return child, doomed, full


class Events(Service):
    """The same with two series, whose numbers come in events, which no number tells apart."""

    options = ("--series", "north,south")

    def text(self) -> str:
        """Each step has up to three events for a series, or a line with both numbers."""
        self.inputs = np.stack([self.inputs, self.rng.permutation(STEPS)], axis=1)
        lines = []
        for step, numbers in enumerate(self.inputs, 1):
            if self.rng.random() < 0.2:
                lines.append("{},{}".format(*numbers))
                continue
            events = []
            for name, number in zip(("north", "south"), numbers, strict=True):
                cuts = np.sort(self.rng.integers(0, number + 1, self.rng.integers(0, 3)))
                events += [f"{name},{x}" for x in np.diff([0, *cuts, number])]
            ends = "step" if self.rng.random() < 0.5 else f"step,{step}"
            lines += [*self.rng.permutation(events), ends]
        return "".join(f"{line}\n" for line in lines)


class Forked:
    """In place of `subprocess.Popen`: the command in a fork of this process, which starts sooner.

    Args:
        seconds: until it is killed; None for a stream that is not.
        full: as of `forked`.
    """

    def __init__(
        self, seconds: float | None, full: int | None, command: list[str], stdin: int, stdout: Any
    ) -> None:
        given, giver = os.pipe()
        self.child = forked(command[1:], given, stdout.fileno(), [giver], full)
        os.close(given)
        self.stdin, self.code = os.fdopen(giver, "wb"), None
        if seconds is not None:
            threading.Timer(seconds, lambda: os.kill(self.child, signal.SIGKILL)).start()

    def poll(self) -> int | None:
        return self.wait(os.WNOHANG)

    def wait(self, how: int = 0) -> int | None:
        if self.code is None:
            child, status = os.waitpid(self.child, how)
            self.code = os.waitstatus_to_exitcode(status) if child else None
        return self.code


def examples() -> ModuleType:
    """A fresh examples/service/feed.py."""
    path = Path(__file__).parents[2] / "examples" / "service" / "feed.py"
    specification = importlib.util.spec_from_file_location("feed", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def started(arguments: list[str], lines: str, full: int | None) -> tuple[int, int]:
    """A process that runs the command, with these lines as its input; its number and its output."""
    (given, giver), (out, into) = os.pipe(), os.pipe()
    child = forked(arguments, given, into, [giver, out], full)
    os.write(giver, lines.encode())
    for handle in (given, giver, into):
        os.close(handle)
    return child, out


def forked(arguments: list[str], given: int, into: int, unused: list[int], full: int | None) -> int:
    """A process that runs the command with this input and output; its number.

    Args:
        arguments: of the command.
        given: its standard input.
        into: its standard output.
        unused: handles that it is to close.
        full: how many bytes a file may have; None for any number.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.dup2(given, 0)
        os.dup2(into, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for handle in (given, *unused):
            os.close(handle)
        sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
        if full is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (full, full))
        code = 99
        try:
            main_command(arguments, prog_name="pmldesign")
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            sys.stdout.flush()
            os._exit(code)
    return child


def main(kills: int = 1000, seed: int = 0) -> int:
    """Kill, print what was found, and return how much was wrong."""
    rng = np.random.default_rng(seed)
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "s.npz"
        best = factorize(f"prefix:{STEPS}", buffers=4, rel_gap=1e-1)
        write_strategy(file, best)
        for kind in (Supervisor, Service, Events):
            wrong: Counter[str] = Counter()
            done = streams = 0
            start = time.monotonic()
            while done < kills:
                state = Path(folder) / f"{kind.__name__}{streams}.state"
                stream = kind(file, best.strategy.matrix, state, rng)
                stream.run(kills - done)
                wrong += stream.wrong
                done, streams = done + stream.kills, streams + 1
            seconds = time.monotonic() - start
            print(
                f"{kind.__name__}: {done} kills of {streams} streams, {seconds:.0f} s", flush=True
            )
            for what, count in wrong.most_common():
                print(f"{count:6d}  {what}")
            total += wrong.total()
    return total


if __name__ == "__main__":
    sys.exit(min(1, main(*(int(argument) for argument in sys.argv[1:]))))
