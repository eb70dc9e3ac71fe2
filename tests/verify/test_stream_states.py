"""States of streams without an end: honest ones hold, forged ones do not."""

import pytest
from altered_states import rehashed, run

import pmldesign as pml
from pmldesign.designs import factorize
from pmldesign.errors import FileError
from pmldesign.privacy import ZCDP
from pmldesign.streams import (
    Designed,
    EndlessStrategy,
    FloatingGaussian,
    Journal,
    Stream,
    endless_stream,
)
from pmldesign.verifier import Verdict

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


def forged(state, **changes):
    """Changes a state with all of its hashes, and its log."""
    state.with_name("state.log").write_text(rehashed(state, **changes))


def failures(state):
    return {check.name for check in pml.verify(state).failures}


def test_honest_states_hold(state):
    assert pml.verify(state).holds
    forged(state)
    assert pml.verify(state).holds


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
    def change(identity):
        identity[place] *= factor

    forged(state, identity=change)
    assert failures(state) == wrong


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE stream SET identity = '{}'",
        "UPDATE state SET content = '{}'",
        "DELETE FROM state",
        "INSERT INTO stream SELECT 2, identity, key FROM stream",
    ],
)
def test_contents_of_other_files_are_found(state, statement):
    run(state, statement)
    assert {"rows", "contents"} & failures(state)


@pytest.mark.parametrize("mark", ["user_version", "application_id"])
def test_states_of_other_versions_and_other_files_are_refused(state, mark):
    run(state, f"PRAGMA {mark} = 7")
    with pytest.raises(FileError, match=r"another version|damaged or no strategy file"):
        pml.verify(state)


def test_forged_rows_are_found(state):
    honest = state.read_bytes()

    def scaled(number, answer):
        value, deviation = answer.split(",")
        return f"{value},{0.9 * float(deviation)}" if number == 7 else answer

    forged(state, row=scaled)
    assert failures(state) == {"standard deviations"}
    for statement in (
        "DELETE FROM step WHERE number = 7",
        "UPDATE step SET answer = '1' || answer WHERE number = 7",
        "UPDATE step SET number = 70 WHERE number = 50",
        "UPDATE step SET input = '' WHERE number = 1",
        "UPDATE state SET after = 9",
        "DELETE FROM step WHERE number = 50",
    ):
        state.write_bytes(honest)
        run(state, statement)
        assert "rows" in failures(state), statement
    for damaged in (honest[:-4096], honest[:2000]):
        state.write_bytes(damaged)
        with pytest.raises(FileError, match="malformed"):
            pml.verify(state)
    state.write_bytes(honest)
    run(state, "DROP TABLE step")
    with pytest.raises(FileError, match="no such table"):
        pml.verify(state)


def test_a_state_that_its_log_has_not_seen_is_found(tmp_path):
    state, log, versions = tmp_path / "state", tmp_path / "state.log", []
    for count in (1, 9, 40):
        journal = Journal(endless_stream(ZCDP(0.5), noise=FloatingGaussian()), state)
        journal.steps([1.0] * count)
        journal.close()
        versions.append((state.read_bytes(), log.read_text()))
    state.write_bytes(versions[1][0])  # an old one
    assert failures(state) == {"log"}
    log.write_text(versions[1][1])
    assert pml.verify(state).holds
    state.write_bytes(versions[2][0])  # one commit ahead, as a kill leaves it
    assert pml.verify(state).holds
    for wrong in (versions[0][1], versions[2][1].replace("50 ", "51 ")):
        log.write_text(wrong)
        assert failures(state) == {"log"}
    log.write_text(versions[2][1][:20])
    assert {"log", "contents"} & failures(state)
    log.unlink()
    assert [check.name for check in pml.verify(state).unchecked] == ["log"]


def test_a_state_that_is_in_use_is_not_read(state):
    journal = Journal(endless_stream(ZCDP(0.5), noise=FloatingGaussian()), state)
    with pytest.raises(FileError, match="locked"):
        pml.verify(state)
    journal.step(1.0)
    journal.close()
    assert pml.verify(state).holds


def test_other_states_are_not_checked_as_a_whole(tmp_path):
    strategy = factorize("prefix:8", buffers=2).strategy
    journal = Journal(Stream(Designed(strategy), 1.0, FloatingGaussian()), tmp_path / "state")
    journal.step(1.0)
    journal.close()
    found = pml.verify(tmp_path / "state")
    assert [check.verdict for check in found.checks] == [
        Verdict.HOLDS,
        Verdict.HOLDS,
        Verdict.UNCHECKED,
    ]
