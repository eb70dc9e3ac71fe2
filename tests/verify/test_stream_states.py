"""States of streams without an end: honest ones hold, forged ones do not."""

import hashlib
import json

import pytest

import pmldesign as pml
from pmldesign.designs import factorize
from pmldesign.privacy import ZCDP
from pmldesign.streams import (
    Designed,
    EndlessStrategy,
    FloatingGaussian,
    Journal,
    Stream,
    endless_stream,
)
from pmldesign.verify import Verdict

pytestmark = pytest.mark.usefixtures("quick_disk")
EPOCHS = len(EndlessStrategy().starts)


@pytest.fixture
def state(tmp_path):
    """The state of a stream that has answered fifty steps in three commits."""
    journal = Journal(endless_stream(ZCDP(0.5), noise=FloatingGaussian(1)), tmp_path / "state")
    for count in (1, 9, 40):
        journal.steps([1.0] * count)
    journal.close()
    return tmp_path / "state"


def chained(state, change):
    """Writes lines that were changed, with the hashes that belong to them, and a log of them."""
    lines = [
        line.rpartition(" " if line.startswith("{") else ",")[0]
        for line in state.read_text().splitlines()
    ]
    changed, chain, text, seen = change(lines), "", "", ""
    for line in changed:
        found = hashlib.blake2b(f"{chain} {line}".encode(), digest_size=8).hexdigest()
        text += f"{line}{' ' if line.startswith('{') else ','}{found}\n"
        if not line.startswith("{") or not chain:
            chain = found
            seen += "" if line.startswith("{") else f"{line.split(',')[0]} {chain}\n"
    state.write_text(text)
    state.with_name("state.log").write_text(seen)


def failures(state):
    return {check.name for check in pml.verify_file(state).failures}


def test_honest_states_hold(state):
    assert pml.verify_file(state).holds
    chained(state, lambda lines: lines)
    assert pml.verify_file(state).holds


@pytest.mark.parametrize(
    ("place", "factor", "wrong"),
    [
        (2, 0.99, {"sensitivity", "standard deviations"}),  # less noise
        (1, 1.01, {"sensitivity"}),
        (-EPOCHS, 1.01, {"sensitivity", "standard deviations"}),  # a longer column
        (-1, 1.01, {"sensitivity"}),
        (3 + 10, 0.5, {"sensitivity", "standard deviations"}),
        (3 + 16, -1.0, {"exponentials"}),
    ],
)
def test_forged_numbers_are_found(state, place, factor, wrong):
    def change(lines):
        content = json.loads(lines[0])
        content["identity"][place] *= factor
        return [json.dumps(content), *lines[1:]]

    chained(state, change)
    assert failures(state) == wrong


@pytest.mark.parametrize("more", [', "epsilon": 0.01}', ', "stream": 3}'])
def test_claims_of_other_files_are_found(state, more):
    chained(state, lambda lines: [lines[0].removesuffix("}") + more, *lines[1:]])
    assert {"lines", "contents"} & failures(state)


def test_forged_lines_are_found(state):
    honest = state.read_text()

    def scaled(lines):
        step, value, deviation, digest = lines[7].split(",")
        return [*lines[:7], f"{step},{value},{0.9 * float(deviation)},{digest}", *lines[8:]]

    chained(state, scaled)
    assert failures(state) == {"standard deviations"}
    state.write_text(honest)
    chained(state, lambda lines: [*lines[:7], *lines[8:]])
    assert "lines" in failures(state)
    state.write_text(honest.replace("\n4,", "\n4,1"))
    assert "lines" in failures(state)
    state.write_text(honest[:-5])
    assert "lines" in failures(state)


def test_a_state_that_its_log_has_not_seen_is_found(state):
    honest, log = state.read_text(), state.with_name("state.log")
    seen = log.read_text().splitlines(keepends=True)
    states = [line for line in honest.splitlines() if line.startswith('{"after')]
    early = honest[: honest.index(states[1])] + states[1] + "\n"
    state.write_text(early)  # an old one
    assert failures(state) == {"log"}
    log.write_text("".join(seen[:2]))
    assert pml.verify_file(state).holds
    state.write_text(honest)  # one commit ahead, as a kill leaves it
    assert pml.verify_file(state).holds
    log.write_text(seen[0])  # and two
    assert failures(state) == {"log"}
    log.write_text(seen[0] + seen[1][:9])
    assert failures(state) == {"log"}
    log.write_text("".join(seen).replace("\n50 ", "\n50 1"))
    assert failures(state) == {"log"}
    log.unlink()
    assert [check.name for check in pml.verify_file(state).unchecked] == ["log"]


def test_other_states_are_not_checked_as_a_whole(tmp_path):
    strategy = factorize("prefix:8", buffers=2).strategy
    journal = Journal(Stream(Designed(strategy), 1.0, FloatingGaussian()), tmp_path / "state")
    journal.step(1.0)
    journal.close()
    found = pml.verify_file(tmp_path / "state")
    assert [check.verdict for check in found.checks] == [
        Verdict.HOLDS,
        Verdict.HOLDS,
        Verdict.UNCHECKED,
    ]
