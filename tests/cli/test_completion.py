"""What shells complete."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from pmldesign.cli import COMMANDS, main
from pmldesign.strategies import BASELINES
from pmldesign.workloads import as_workload

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@pytest.fixture(params=SHELLS)
def complete(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.npz").touch()
    (tmp_path / "notes.txt").touch()
    shell = SHELLS[request.param](main, {}, "pmldesign", "_PMLDESIGN_COMPLETE")

    def values(*words):
        found = shell.get_completions([*words[:-1]], words[-1])
        assert all(shell.format_completion(item) for item in found)
        return [item.value for item in found]

    assert "_PMLDESIGN_COMPLETE" in shell.source()
    return values


def test_commands(complete):
    assert complete("") == list(COMMANDS)
    assert complete("co") == ["compare"]
    assert "--version" in complete("--")


def test_options_and_their_values(complete):
    assert {"--epsilon", "--strategies", "--effort"} <= set(complete("compare", "--"))
    assert complete("optimize", "prefix:4", "--noise", "g") == ["gaussian"]
    assert complete("optimize", "prefix:4", "--neighbours", "") == ["add-remove", "replace"]


@pytest.mark.parametrize("command", ["optimize", "compare", "bounds", "workload", "calibrate"])
def test_workloads_are_names_that_work_and_files(complete, command):
    for text in complete(command, "pr"):
        assert as_workload(text).shape[1] > 0
    assert [text.partition(":")[0] for text in complete(command, "pre")] == ["prefix"]
    assert "mine.npz" in complete(command, "")
    assert "notes.txt" not in complete(command, "")
    (joined,) = complete(command, "total:8*histo")
    assert joined.startswith("total:8*histogram:")


def test_strategies_after_every_comma(complete):
    names = complete("compare", "prefix:4", "--strategies", "")
    assert {"design", "least-norm", "all", "mine.npz"} <= set(names)
    assert {known.name for known in BASELINES} <= set(names)
    assert complete("compare", "prefix:4", "--strategies", "tree,ha") == ["tree,haar"]
    assert "haar,haar" not in complete("compare", "prefix:4", "--strategies", "haar,")


@pytest.mark.parametrize(
    ("line", "expected"),
    [("pmldesign opt", ["optimize"]), ("pmldesign compare prefix:4 --strategies id", ["identity"])],
)
def test_the_real_bash(tmp_path, line, expected):
    words = line.split()
    (tmp_path / "pmldesign").write_text(f'#!/bin/sh\nexec {sys.executable} -m pmldesign "$@"\n')
    (tmp_path / "pmldesign").chmod(0o755)
    script = BashComplete(main, {}, "pmldesign", "_PMLDESIGN_COMPLETE").source()
    ask = (
        f"{script}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n"
        "_pmldesign_completion pmldesign\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    result = subprocess.run(
        ["bash", "--norc", "-c", ask],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=True,
    )
    assert result.stderr == ""
    assert result.stdout.split() == expected
