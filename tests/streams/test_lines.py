"""What lines of input say, gaps, events, corrections."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.cli import main
from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.files import write_strategy
from pmldesign.strategies import Participation
from pmldesign.streams import Corrections, Given, Lines, dyadic

pytestmark = pytest.mark.usefixtures("quick_disk")
LOUD = ["--epsilon", "1e8", "--delta", "1e-6"]
"""So little noise that an answer shows what was counted."""


@pytest.fixture
def stream(tmp_path):
    """The command on a state, and the rounded answers that it prints."""
    state = str(tmp_path / "d.state")

    def run(workload, lines, *more, code=0, participation=None):
        file = tmp_path / "s.npz"
        if not file.exists():
            write_strategy(file, factorize(workload, participation=participation))
        options = ["stream", str(file), *LOUD, "--state", state, *more]
        found = CliRunner().invoke(main, options, input=lines)
        assert found.exit_code == code, found.output
        if code:
            return found
        return [
            [round(float(number)) for number in line.split(",")[:-1]]
            for line in found.stdout.splitlines()
        ]

    return run


def test_gaps_count_as_zero_or_are_refused(stream):
    found = stream("prefix:9", "2,5\n", code=2)
    assert "its step is 2, but step 1 comes next; add --gaps zero to count" in found.stderr
    assert stream("prefix:9", "2,5\n5,7\n", "--gaps", "zero", "--commit", "3") == [
        [1, 0],
        [2, 5],
        [3, 5],
        [4, 5],
        [5, 12],
    ]
    # what came too late was answered as 0
    found = stream("prefix:9", "3,1\n", "--gaps", "zero", code=2)
    assert "step 3 was answered already, for another number" in found.stderr
    assert stream("prefix:9", "3,0\n6,1\n", "--gaps", "zero") == [[3, 5], [6, 13]]
    found = stream("prefix:9", "10,1\n", "--gaps", "zero", code=2)
    assert "the stream has 9 steps, of which 6 are taken; got 4 more" in found.stderr


def test_several_series_in_lines_and_events(stream, tmp_path):
    product = "prefix:6*histogram:3"
    assert stream(product, "1,2,3\n2,10,0,0\n") == [[1, 1, 2, 3], [2, 11, 2, 3]]
    names = ["--series", "north,south,east"]
    events = "north,1\nsouth,0.5\nnorth,1\nsouth,0.5\nstep,3\nstep\n1,1,1\n"
    assert stream(product, events, *names) == [[3, 13, 3, 3], [4, 13, 3, 3], [5, 14, 4, 4]]
    # the sum of the events of a step is what is compared
    assert stream(product, "north,2\nsouth,1\nstep,3\n", *names) == [[3, 13, 3, 3]]
    found = stream(product, "north,3\nsouth,1\nstep,3\n", *names, code=2)
    assert "line 3 of standard input: step 3 was answered already, for another" in found.stderr
    found = CliRunner().invoke(
        main, ["stream", str(tmp_path / "s.npz"), *LOUD, *names], input="north,1\nstep\nnorth,1\n"
    )
    assert found.stderr.endswith("note: lines behind the last step are not counted: 1\n")
    assert len(found.stdout.splitlines()) == 1
    wrong = stream(product, "1,2\n", code=2)
    assert "it must be 3 numbers, or their step and the numbers, got '1,2'" in wrong.stderr
    wrong = stream(product, "west,2\n", *names, code=2)
    assert (
        "it must be an event (north,2 or south,2 or east,2), the end of a step (step), or 3"
        in wrong.stderr
    )
    for given_names in ("a,b", "a,b,a", "a,b,1", "a,b,step", "a,,b"):
        assert stream(product, "", "--series", given_names, code=2)


def test_a_file_of_one_series_serves_several(stream):
    assert stream("prefix:6", "1,2\n10,20\n", "--series", "a,b") == [[1, 1, 2], [2, 11, 22]]
    with_names = stream("prefix:6", "a,1\nstep\n", "--workload", "prefix:6*histogram:2", code=2)
    assert "it must be 2 numbers" in with_names.stderr
    more = ["--workload", "prefix:6*histogram:2", "--series", "a,b"]
    assert stream("prefix:6", "b,1\nstep\n", *more) == [[3, 11, 23]]


def test_numbers_are_written_in_plain_digits(stream):
    for line in ("1_000", "\u0663", "1_0,5", "\u0661,5", "1'000", "1;5", "0x10"):
        found = stream("prefix:9", f"{line}\n", code=2)
        assert "it must be one number, or its step" in found.stderr
        assert found.stdout == ""
    for line in ("1" * 5000 + ",1", "0" * 5000 + "1,1", "step," + "1" * 5000):
        found = stream("prefix:9", f"{line}\n", "--series", "north", code=2)
        assert "it must be an event (north,2), the end of a step" in found.stderr
    assert stream("prefix:9", "+1e1\r\n -2.\n") == [[1, 10], [2, 8]]


def test_lines_without_an_end_do_not_fill_the_memory(stream):
    found = stream("prefix:9", b"1\n2\n" + b"1" * 3 * 10**7, "--commit", "9", code=2)
    assert found.stderr.endswith(
        "error: line 3 of standard input: it has more than 16777216 bytes; give each step a line\n"
    )
    assert len(found.stdout.splitlines()) == 2


def test_what_stands_before_a_sum_that_is_too_large_is_answered(stream):
    events = "north,4\nstep\nnorth,9e15\nnorth,1\nnorth,9e15\nstep\n"
    found = stream("prefix:9", events, "--series", "north", "--commit", "9", code=2)
    assert "line 6 of standard input: an input of a stream must be at most 2^53" in found.stderr
    assert found.stdout.startswith("1,")
    lines = "2,1\nnorth,9e15\nnorth,-9e15\nstep\n"
    assert stream("prefix:9", lines, "--series", "north") == [[2, 5], [3, 5]]


def test_names_of_series_may_have_blanks_around_them(stream):
    names = ["--series", "north, south"]
    assert stream("prefix:9", "north,1\nsouth,2\nstep\n", *names) == [[1, 1, 2]]
    found = stream("prefix:9", "1\n", "--series", "", code=2)
    assert "a series cannot be called ''" in found.stderr


def test_windows_from_the_strategy_of_running_sums(stream):
    lines = stream("prefix:6", "1\n2\n3\n4\n", "--workload", "window:6,2", "--commit", "2")
    assert lines == [[1, 1], [2, 3], [3, 5], [4, 7]]
    assert stream("prefix:6", "4,4\n5\n", "--workload", "window:6,2") == [[4, 7], [5, 9]]


def test_a_line_without_an_end_is_not_taken_in(stream):
    found = stream("prefix:6", "1\n2", code=2)
    assert "line 2 of standard input: it has no end" in found.stderr
    assert stream("prefix:6", "20\n") == [[2, 21]]


def test_corrections_are_counted(stream):
    found = stream("prefix:9", "1\ncorrect,1,-1\n5\n", code=2, participation="3,min-sep=2")
    assert "people of step 1 may take part in steps 1, 2; this stream is for 3,min-sep=2" in (
        found.stderr
    )
    assert stream("prefix:9", "5\ncorrect,1,-1\n5\n") == [[2, 6], [3, 10]]
    # a correction that comes again with its step is the same one
    assert stream("prefix:9", "correct,1,-1\n3,5\n") == [[3, 10]]
    assert "steps 1, 3, 4;" in stream("prefix:9", "correct,1,-1\n0\n", code=2).stderr
    assert stream("prefix:9", "0\ncorrect,1,1\ncorrect,3,1\n5,0\n") == [[4, 10], [5, 12]]
    found = stream("prefix:9", "0\ncorrect,1,1\n0\n", code=2)
    assert "steps 1, 3, 5, 7; this stream is for 3,min-sep=2" in found.stderr
    assert "step 8 cannot be corrected in step 7" in (
        stream("prefix:9", "correct,8,1\n0\n", code=2).stderr
    )


def test_a_correction_of_a_refused_step_does_not_count(stream):
    """That of step 2 would be a third participation where it comes in the next step."""
    lines = "1\n2\n3\n4\ncorrect,2,-1\ncorrect,4,-1\n5\n"
    found = stream("prefix:9", lines, "--commit", "9", code=2, participation="2,min-sep=2")
    assert "people of step 4 may take part in steps 4, 5" in found.stderr
    assert len(found.stdout.splitlines()) == 4
    assert stream("prefix:9", "5\ncorrect,2,-1\n6\n") == [[5, 15], [6, 20]]
    assert "steps 2, 6, 8" in stream("prefix:9", "0\ncorrect,2,-1\n0\n", code=2).stderr


def test_a_correction_is_refused_where_a_person_takes_part_once(stream):
    found = stream("prefix:9", "1\ncorrect,1,-1\n5\n", code=2)
    assert "design it with --participation 2,min-sep=1" in found.stderr


def test_corrections_of_events_have_a_name(stream):
    lines = "a,1\nstep\ncorrect,1,a,-1\ncorrect,1,2,2\nb,5\nstep\n"
    found = stream("prefix:6", lines, "--series", "a,b", participation="2,min-sep=1")
    assert found == [[1, 1, 0], [2, 2, 7]]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("times", "apart"), [(2, 1), (2, 3), (3, 2)])
def test_corrections_are_patterns_of_the_participation(fixed, times, apart):
    """Against all patterns of eight steps, written out."""
    schema = Participation(times, apart, fixed)
    patterns = set()
    for steps in combinations(range(1, 9), times):
        gaps = np.diff(steps)
        if (gaps == apart).all() if fixed else (gaps >= apart).all():
            patterns.add(frozenset(steps))
    subsets = {
        frozenset(part)
        for pattern in patterns
        for size in range(1, times + 1)
        for part in combinations(sorted(pattern), size)
    }
    for steps in (chosen for size in (2, 3) for chosen in combinations(range(1, 9), size)):
        corrections, allowed = Corrections(schema), True
        try:
            for later in steps[1:]:
                corrections.count(steps[0], later)
        except InvalidInputError:
            allowed = False
        assert allowed == (frozenset(steps) in subsets), steps


def test_corrections_of_corrections_may_be_about_the_same_person():
    corrections = Corrections(Participation(2, 1, False))
    corrections.count(1, 3)
    corrections.count(2, 3)
    with pytest.raises(InvalidInputError, match="people of step 1 may take part in steps 1, 3, 5"):
        corrections.count(3, 5)
    corrections.count(4, 5)
    assert corrections.pairs == [(1, 3), (2, 3), (4, 5)]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8), st.integers(0, 7))
def test_events_of_neighbours_differ_by_no_more_than_one(numbers, place):
    """Sums of floating-point numbers would not."""
    place %= len(numbers)
    others = [*numbers[:place], *numbers[place + 1 :]]
    one = min(1.0, abs(numbers[place]))
    totals = []
    for events in ([*numbers[:place], one, *numbers[place + 1 :]], others):
        lines = Lines(1, ["a"])
        for number in events:
            assert lines.read(f"a,{number!r}") is None
        totals.append(dyadic(lines.read("step").value))
    assert abs(totals[0] - totals[1]) <= 2**40


def test_sums_of_events_are_exact():
    lines = Lines(1, ["a"])
    for number in ("1e15", "0.000000001", "3"):
        lines.read(f"a,{number}")
    found = lines.read("step,4")
    expected = (10**15 + 3) * 2**40 + dyadic(1e-9)
    assert found == Given(4, Fraction(expected, 2**40))
    assert dyadic(found.value) == expected
    assert lines.read("step") == Given(None, 0.0)


def test_what_is_no_file_of_a_stream_says_how_one_is_made(stream, tmp_path):
    found = CliRunner().invoke(main, ["stream", "prefix:365", *LOUD], input="1\n")
    assert (found.exit_code, found.stdout) == (6, "")
    assert "there is no such file; FILE is written by `pmldesign optimize WORKLOAD" in found.stderr
    longer = stream("prefix:6", "1\n", "--workload", "prefix:8", code=2)
    assert "is for 6 cells, which are not series of 8 steps" in longer.stderr
