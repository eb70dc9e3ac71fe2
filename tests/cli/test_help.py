"""Help: commands by group, options by section, and every text in one style."""

import os
import pty
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from pmldesign.cli import COMMANDS, GROUPS, main
from pmldesign.cli.options import sections, wording

MOST_OPTIONS = 26
WIDTH = 80
DECLARED = re.compile(r"^  (?:-\w, )?(--[\w-]+)", re.MULTILINE)
HEADLESS = re.compile(r"(Of|At|With|What|Or|Where|How|Without|In)\b")


def all_commands():
    """Every command by the words that call it, groups of commands included."""
    found = {}
    with click.Context(main) as context:
        for name in main.list_commands(context):
            command = main.get_command(context, name)
            found[name] = command
            if isinstance(command, click.Group):
                found |= {f"{name} {each}": sub for each, sub in command.commands.items()}
    return found


ALL = all_commands()
SINGLE = {words: each for words, each in ALL.items() if not isinstance(each, click.Group)}


def options_of(command):
    return [each for each in command.params if isinstance(each, click.Option)]


def in_terminal(*words):
    """What a command prints on a terminal of 80 columns, and its exit code."""
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    script = f"stty cols {WIDTH} rows 50; exec {sys.executable} -m pmldesign {' '.join(words)}"
    process = subprocess.Popen(
        ["sh", "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # how Linux ends the output of a terminal
        pass
    os.close(ours)
    return shown.decode().replace("\r\n", "\n"), process.wait()


@pytest.mark.parametrize("words", SINGLE)
def test_every_option_is_shown_once_in_its_section(words):
    shown = CliRunner().invoke(main, [*words.split(), "--help"], prog_name="pmldesign").stdout
    shown = shown[re.search(r"^(?!Example)\w+:$", shown, re.MULTILINE).start() :]
    options = options_of(SINGLE[words])
    for each in options:
        assert each.name in wording.SECTION_OF, f"{each.name} needs a section"
        assert DECLARED.findall(shown).count(max(each.opts, key=len)) == 1
    titles = [line[:-1] for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    order = list(sections.SECTIONS)
    assert titles == sorted(titles, key=order.index)


def test_no_option_is_in_two_sections():
    names = [name for members in sections.SECTIONS.values() for name in members]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("words", SINGLE)
def test_options_are_few_and_json_is_one_of_them(words):
    options = options_of(SINGLE[words])
    assert len(options) <= MOST_OPTIONS
    assert "--json" in {name for each in options for name in each.opts}


@pytest.mark.parametrize("words", ALL)
def test_a_text_of_help_is_a_phrase_with_a_capital_and_a_full_stop(words):
    command = ALL[words]
    texts = [each.help for each in options_of(command)]
    texts += [] if isinstance(command, click.Group) else [command.help.partition("\n")[0]]
    texts += [command.help.partition("\n\n")[0]]
    for text in texts:
        assert text[0].isupper(), text
        assert text.endswith("."), text
        assert not HEADLESS.match(text), text
        assert not re.search(r"\b(beside|alone|likewise|whoever|nobody)\b", text), text
    for each in options_of(command):
        if not each.is_flag and each.default not in (None, (), click.core.UNSET):
            assert each.show_default, each.name


@pytest.mark.parametrize("words", SINGLE)
def test_a_command_has_an_example_of_itself(words):
    shown = CliRunner().invoke(main, [*words.split(), "--help"], prog_name="pmldesign").stdout
    (example,) = re.findall(r"Example:\n +(.*)", shown)
    assert example.startswith(f"pmldesign {words}")
    options = {name for each in options_of(SINGLE[words]) for name in each.opts}
    assert set(re.findall(r"(?<= )--?[a-z][\w-]*", example)) <= options


def test_a_bare_call_prints_the_groups_of_commands_on_a_terminal():
    bare, code = in_terminal()
    helped, _ = in_terminal("--help")
    assert bare == helped
    assert code == 2
    assert max(map(len, bare.splitlines())) <= WIDTH
    titles = re.findall(r"^(\w+):$", bare, re.MULTILINE)
    assert titles == ["Options", *GROUPS]
    assert re.findall(r"^  (\w+) ", bare.split("\nDesign:\n")[1], re.MULTILINE)[:16] == [*COMMANDS]


def test_a_group_of_commands_prints_them_in_order_on_a_terminal():
    bare, code = in_terminal("ledger")
    assert code == 2
    assert max(map(len, bare.splitlines())) <= WIDTH
    assert re.findall(r"^  (\w+) ", bare.split("Commands:")[1], re.MULTILINE) == [
        "show",
        "plan",
        "export",
    ]


@pytest.mark.parametrize("words", ["optimize", "release", "schema check", "ledger plan"])
def test_help_fits_a_terminal(words):
    shown, code = in_terminal(*words.split(), "--help")
    assert code == 0
    assert max(map(len, shown.splitlines())) <= WIDTH
