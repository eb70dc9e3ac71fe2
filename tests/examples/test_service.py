"""The service of the documentation, killed a few times; robustness/killed.py does it longer."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from pmldesign.designs import factorize
from pmldesign.files import write_strategy

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def killed():
    path = ROOT / "tests" / "robustness" / "killed.py"
    specification = importlib.util.spec_from_file_location("killed", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["Supervisor", "Service", "Events"])
def test_every_answer_once_whatever_is_killed(killed, kind, tmp_path):
    best = factorize(f"prefix:{killed.STEPS}", buffers=4, rel_gap=1e-1)
    write_strategy(tmp_path / "s.npz", best)
    random = np.random.default_rng(1)
    stream = getattr(killed, kind)(
        tmp_path / "s.npz", best.strategy.matrix, tmp_path / "d.state", random
    )
    stream.run(4)
    assert not stream.wrong
    assert len(stream.read) == killed.STEPS


def test_the_feeder_removes_what_is_left_of_a_line(killed, tmp_path):
    answers = tmp_path / "answers.csv"
    answers.write_bytes(b"1,2,3\n2,3,4\n3,1")
    with answers.open("ab+") as out:
        assert killed.examples().complete_lines(out) == 2
    assert answers.read_bytes() == b"1,2,3\n2,3,4\n"


def test_the_feeder_knows_what_a_step_is(killed):
    """Events and corrections belong to the next step; what is said of its number is passed on."""
    lines = [b"3\n", b"north,2\n", b"correct,1,-1\n", b"step\n", b"", b"1,2\n", b"step,9\n", b"a\n"]
    lines += [b"1_0\n", "\uff11\n".encode(), b"2\n"]  # numbers for Python alone, which are refused
    assert list(killed.examples().steps(iter(lines))) == [
        (1, b"1,3\n"),
        (2, b"north,2\ncorrect,1,-1\nstep,2\n"),
        (0, b""),
        (3, b"3,1,2\n"),
        (4, b"step,9\n"),
        (5, b"a\n1_0\n\xef\xbc\x91\n5,2\n"),
    ]


def test_the_unit_of_the_page_is_the_one_of_the_example():
    unit = (ROOT / "examples" / "service" / "pmldesign-stream.service").read_text()
    page = (ROOT / "docs" / "guides" / "service.md").read_text()
    shown = page.split("```ini\n")[1].split("```")[0]
    assert shown in unit
