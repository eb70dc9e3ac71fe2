"""Tables, facts and progress on a terminal."""

import errno
import io
import re
import sys

import click
import pytest

from pmldesign.cli import facts, main, note, print_json, progress, table, wrapped
from pmldesign.errors import PmldesignError


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Both streams on one terminal of the width asked for; what it was sent."""

    def make(columns):
        screen = Terminal()
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        return screen

    return make


@pytest.mark.parametrize("columns", [20, 200])
def test_a_narrow_terminal_cuts_no_digit(terminal, columns):
    screen = terminal(columns)
    table(["strategy", "error"], [["a strategy with a long name.npz", "1234.56"]])
    shown = screen.getvalue()
    assert "a strategy with a long name.npz" in shown
    assert "1234.56" in shown
    assert max(map(len, shown.splitlines())) < 80


def test_a_result_that_is_no_number_is_an_error_and_not_json(capsys):
    with pytest.raises(PmldesignError, match="not a number in double precision"):
        print_json({"value": float("nan")})
    print_json({"value": float("inf")})
    assert '"value": "inf"' in capsys.readouterr().out


def test_columns_are_left_out_from_the_least_important_one_on(terminal):
    screen = terminal(30)
    headers, cells = ["name", "first", "second", "third"], ["x", "1" * 10, "2" * 10, "3" * 8]
    table(headers, [cells], optional=["second", "first"])
    assert "2222" not in screen.getvalue()
    assert "1111111111" in screen.getvalue()
    assert "33333333" in screen.getvalue()
    assert "left out in 30 columns: second" in screen.getvalue()


def test_columns_of_text_wrap_at_words(terminal):
    screen = terminal(40)
    table(
        ["name", "value", "mechanisms"],
        [["bound", "1.25", "all of them " * 8]],
        texts=["mechanisms"],
    )
    text = click.unstyle(screen.getvalue())
    assert max(map(len, text.splitlines())) <= 40
    assert set(re.findall(r"[a-z]+", text)) == {
        *("name", "value", "mechanisms", "bound", "all", "of", "them")
    }


@pytest.mark.parametrize(
    "command",
    [
        ["optimize", "prefix:16", "--p", "4", "--epsilon", "1", "--delta", "1e-6"],
        ["optimize", "prefix:4", "--epsilon", "1", "--delta", "1e-6", "--alpha", "0.1"],
        ["compare", "prefix:2..4", "--epsilon", "0.1,1", "--delta", "1e-6", "--p", "2,4"],
        ["bounds", "prefix:16", "--epsilon", "1", "--delta", "1e-6"],
        ["workload"],
        ["calibrate", "prefix:16", "--epsilon", "1", "--alpha", "0.01"],
    ],
)
def test_everything_fits_80_columns(terminal, command):
    screen = terminal(80)
    searches = ["--effort", "quick"] if command[0] in ("optimize", "compare") else []
    main.main([*command, *searches], standalone_mode=False)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|.*\r", "", screen.getvalue())
    assert max(map(len, text.splitlines())) <= 80
    assert "ratio" in text or command[0] not in ("optimize", "compare")


def test_facts_wrap_under_their_values(terminal):
    screen = terminal(20)
    facts([("a", "one two three four five"), ("name", "six")])
    assert screen.getvalue().splitlines() == ["a     one two three", "      four five", "name  six"]


def test_words_are_never_broken():
    assert wrapped("gamma_(2)-between 143.56255", 10) == "gamma_(2)-between\n143.56255"
    assert wrapped("as it is", None) == "as it is"


def test_the_line_of_progress_is_gone_before_anything_is_printed(terminal):
    screen = terminal(80)
    with progress() as report:
        report("working")
        note("something")
        report("working on")
        facts([("name", "value")])
    sent = screen.getvalue()
    for printed in ("note: something", "name  value"):
        before = sent[: sent.index(printed)]
        # the last thing before is an erased line, and no word of progress after it
        assert "\x1b[2K" in before
        assert "working" not in before[before.rindex("\x1b[2K") :]


def test_no_progress_without_a_terminal(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress() as report:
        report("working")
    assert stream.getvalue() == ""


def test_progress_on_a_terminal_that_is_gone_is_lost_alone(monkeypatch):
    class Gone(Terminal):
        def write(self, _text):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    with progress() as report:
        report("working")
        note("something")
        report("working on")
