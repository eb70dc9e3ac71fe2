"""Tables on a terminal."""

import io
import sys

import pytest

from pmldesign.cli.show import table


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns", ["20", "200"])
def test_a_narrow_terminal_cuts_no_digit(monkeypatch, columns):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", columns)
    table(["strategy", "error"], [["a strategy with a long name.npz", "1234.56"]])
    shown = terminal.getvalue()
    assert "a strategy with a long name.npz" in shown
    assert "1234.56" in shown
    assert max(map(len, shown.splitlines())) < 80
