"""The page of the command shows what the command prints."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from pmldesign.cli.envelope import envelope

PAGE = Path(__file__).parents[2] / "docs" / "cli-envelope.md"
EXAMPLES = re.findall(
    r"^```\n\$ pmldesign envelope ([^\n]*)\n(.*?)^(?:```|\$ cat)", PAGE.read_text(), re.M | re.S
)
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


@pytest.mark.parametrize(("arguments", "shown"), EXAMPLES)
def test_examples_print_what_the_page_shows(arguments, shown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = CliRunner().invoke(envelope, shlex.split(arguments), catch_exceptions=False).stdout
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    numbers = [[float(text) for text in NUMBER.findall(side)] for side in (printed, shown)]
    assert numbers[0] == pytest.approx(numbers[1], abs=2e-6)


def test_the_page_has_examples():
    assert len(EXAMPLES) == 3
