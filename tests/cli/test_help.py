"""Help: options stand in sections, and every option has one."""

import importlib
import re

import click
import pytest
from click.testing import CliRunner

from pmldesign.cli import COMMANDS, main
from pmldesign.cli.options import sections

DECLARED = re.compile(r"^  (?:-\w, )?(--[\w-]+)", re.MULTILINE)


def options_of(name):
    command = importlib.import_module(f"pmldesign.cli.{name}").command
    return [each for each in command.params if isinstance(each, click.Option)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_shown_once_in_its_section(name):
    shown = CliRunner().invoke(main, [name, "--help"], prog_name="pmldesign").stdout
    options = options_of(name)
    shown = shown[re.search(r"^\w+:$", shown, re.MULTILINE).start() :]
    for each in options:
        assert each.name in sections.SECTION_OF, f"{each.name} needs a section"
        declared = max(each.opts, key=len)
        assert DECLARED.findall(shown).count(declared) == 1
    titles = [line[:-1] for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    if len(options) > sections.FEW:
        order = list(sections.SECTIONS)
        assert len(titles) >= 2
        assert titles == sorted(titles, key=order.index)


def test_no_option_is_in_two_sections():
    names = [name for members in sections.SECTIONS.values() for name in members]
    assert len(names) == len(set(names))
