import json
import os
import signal
import sys
from contextlib import suppress

import pytest
from click.testing import CliRunner

from pmldesign.cli import main


class Shell:
    """Runs commands in the current folder; `table` and `json` insist on success."""

    def __call__(self, *arguments, stdin=None):
        words = [str(argument) for argument in arguments]
        result = CliRunner().invoke(main, words, input=stdin, prog_name="pmldesign")
        crash = result.exception
        if crash is not None and not isinstance(crash, SystemExit):
            raise crash
        return result

    def json(self, *arguments, exit_code=0):
        result = self(*arguments, "--json")
        assert result.exit_code == exit_code, result.stderr
        return json.loads(result.stdout)

    def table(self, *arguments):
        """The rows of the table, each a dictionary by column."""
        result = self(*arguments)
        assert result.exit_code == 0, result.stderr
        lines = result.stdout.split("\n\n")[-1].splitlines()
        header, *body = [line.replace("max std", "max_std").split() for line in lines]
        return [dict(zip(header, cells, strict=True)) for cells in body]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Shell()


@pytest.fixture
def signalled():
    """Makes of a function another one that a signal reaches, and that goes on.

    Ctrl-C is not ignored meanwhile, as it may be in a job in the background, and TERM does not end
    this process.
    """

    def changed(number, function):
        def call(*arguments, **options):
            result = function(*arguments, **options)
            with suppress(KeyboardInterrupt):
                os.kill(os.getpid(), number)
            return result

        return call

    interrupt, terminate = signal.default_int_handler, lambda *_: sys.exit(143)
    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: terminate}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield changed
    for number, handler in before.items():
        signal.signal(number, handler)
