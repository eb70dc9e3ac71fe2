"""States hold the names of their series: numbers of one never get into another."""

import hashlib
import sqlite3

import pytest
from altered_states import rehashed, run
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.designs import factorize
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import write_strategy
from pmldesign.privacy import ApproxDP
from pmldesign.streams import FloatingGaussian, Journal, endless_stream
from pmldesign.verifier import Verdict

pytestmark = pytest.mark.usefixtures("quick_disk")
LOUD = ["--epsilon", "1e6", "--delta", "1e-6"]


@pytest.fixture
def stream(tmp_path):
    """The command on a state, and the rounded sums that it prints."""

    def streamed(lines, *options, code=0, name="d.state", file="prefix:inf"):
        state = ["--state", str(tmp_path / name)]
        found = CliRunner().invoke(main, ["stream", file, *LOUD, *state, *options], input=lines)
        assert found.exit_code == code, found.output
        if code:
            assert found.stdout == ""
            return found.stderr
        end = -2 if file == "prefix:inf" else -1
        return [[round(float(x)) for x in line.split(",")[1:end]] for line in found.stdout.split()]

    return streamed


@pytest.fixture
def designed_for_two(tmp_path):
    """A file whose steps have two numbers, with names or without."""
    write_strategy(tmp_path / "s.npz", factorize("prefix:9*histogram:2"))
    return tmp_path / "s.npz"


def test_names_in_another_order_are_refused(stream, tmp_path):
    assert stream("a,1\nb,10\nstep\n", "--series", "a,b") == [[1, 10]]
    for names in ("b,a", "a,c", "a,b,c", "A,b", "a"):
        said = stream("a,1\nb,10\nstep\n", "--series", names, code=6)
        assert (
            f"d.state cannot go on: its series are a,b, in this order; got --series {names}\n"
            in said
        )
    said = stream("1\n", code=6)
    assert "d.state cannot go on: its series are a,b, in this order; got no names\n" in said
    assert stream("b,10\na,1\nstep\n", "--series", " a , b ") == [[2, 20]]
    assert pml.verify(tmp_path / "d.state").holds


def test_names_are_held_from_where_they_were_first_given(designed_for_two, stream):
    """Numbers of lines without names are in the order of the series."""
    file = str(designed_for_two)
    assert stream("1,10\n", file=file) == [[1, 10]]
    assert stream("b,10\na,1\nstep\n", "--series", "a,b", file=file) == [[2, 20]]
    assert stream("1,10\n", file=file) == [[3, 30]]
    said = stream("b,10\na,1\nstep\n", "--series", "b,a", code=6, file=file)
    assert "its series are a,b, in this order; got --series b,a\n" in said


def test_the_names_of_a_state_may_be_any_text(stream, tmp_path):
    for number, names in enumerate(('Zürich,"x"', "a b,{", "\\n,\N{SNOWMAN}")):
        name = f"{number}.state"
        assert stream("1,10\n", "--series", names, name=name) == [[1, 10]]
        assert stream("1,10\n", "--series", names, name=name) == [[2, 20]]
        back = ",".join(names.split(",")[::-1])
        stream("1,10\n", "--series", back, name=name, code=6)
        assert pml.verify(tmp_path / name).holds


def test_altered_names_are_found(stream, tmp_path):
    stream("a,1\nb,10\nstep\n" * 3, "--series", "a,b", "--commit", "2")
    state, log = tmp_path / "d.state", tmp_path / "d.state.log"
    honest, seen = state.read_bytes(), log.read_text()
    run(state, """UPDATE state SET content = replace(content, '"a","b"', '"b","a"')""")
    assert "rows" in {check.name for check in pml.verify(state).failures}
    assert "d.state is damaged" in stream("1,10\n", "--series", "b,a", code=6)
    state.write_bytes(honest)
    witness = rehashed(state, state=lambda content: content["series"].reverse())
    assert [check.name for check in pml.verify(state).failures] == ["log"]
    assert "damaged, cut or an old one" in stream("1,10\n", "--series", "b,a", code=6)
    log.unlink()  # nothing to compare it with
    (unchecked,) = pml.verify(state).unchecked
    assert (unchecked.name, unchecked.verdict) == ("log", Verdict.UNCHECKED)
    log.write_text(witness)
    assert pml.verify(state).holds  # another state, with a log of its own
    state.write_bytes(honest)
    log.write_text(seen)
    assert pml.verify(state).holds


def test_the_log_tells_nothing_of_the_data(stream, tmp_path):
    """Equal numbers of another stream have other digests there."""
    lines = []
    for name in ("a.state", "b.state"):
        stream("1,10\n", "--series", "a,b", name=name)
        lines.append((tmp_path / f"{name}.log").read_text().split())
        with sqlite3.connect(tmp_path / name) as file:
            ((after, content),) = file.execute("SELECT after, content FROM state")
        file.close()
        # what may be tried out by whoever has the state
        plain = hashlib.blake2b(
            f"{after} 1 {lines[-1][1]} {content}".encode(), digest_size=16
        ).hexdigest()
        assert plain not in lines[-1]
        assert {len(word) for word in lines[-1][1:]} == {32}
    assert not {*lines[0][1:]} & {*lines[1][1:]}


def test_a_state_that_was_edited_with_its_hash_does_not_go_on(stream, tmp_path):
    """Of the sums, say: they are in no row of a step."""
    stream("1,10\n", "--series", "a,b")
    rehashed(tmp_path / "d.state", state=lambda content: content.update(sum=[0.0, 0.0]))
    assert "damaged, cut or an old one" in stream("1,10\n", "--series", "a,b", code=6)


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", ""], ["a", 1], ["a", "b", "c"], "ab"])
def test_names_that_cannot_be_are_found(stream, tmp_path, names):
    stream("1,10\n", "--series", "a,b")
    state = tmp_path / "d.state"
    witness = rehashed(state, state=lambda content: content.update(series=names))
    (tmp_path / "d.state.log").write_text(witness)
    assert "rows" in {check.name for check in pml.verify(state).failures}


def test_journals_of_python_hold_names(tmp_path):
    def journal(names, series=2):
        stream = endless_stream(ApproxDP(1e6, 1e-6), noise=FloatingGaussian(), series=series)
        return Journal(stream, tmp_path / "state", names)

    first = journal(["a", "b"])
    first.step([1, 10])
    first.close()
    with pytest.raises(FileError, match="its series are a,b"):
        journal(["b", "a"])
    again = journal(())
    assert again.names == ["a", "b"]
    assert [round(x) for x in again.step([1, 10]).value] == [2, 20]
    again.close()
    for wrong in (["a"], ["a", "a"], ["a", "1"], "ab", [1, 2]):
        with pytest.raises(InvalidInputError, match="series"):
            journal(wrong)
