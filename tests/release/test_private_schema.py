"""Private drafts of schemas: no record decides on a key, but with the probability that is paid."""

import json
import math
from fractions import Fraction

import numpy as np
import pandas
import polars as pl
import pytest
from click.testing import CliRunner
from fast_sampler import fast_sampler, no_noise

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import InfeasibleError, InvalidInputError
from pmldesign.releases import (
    Ledger,
    Thresholds,
    as_schema,
    count_people,
    private_draft,
    read_ledger,
)

PROMISE = pml.ApproxDP(1.0, 1e-6)


def frame(**columns):
    return pl.DataFrame(columns)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-4, 0.3])
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_thresholds_keep_epsilon_and_delta(epsilon, delta, columns):
    """Sums of the law itself, far beyond what is left of it."""
    limits = Thresholds.of(pml.ApproxDP(epsilon, delta), columns)
    b, least = limits.scale, limits.least
    assert 2 * columns / Fraction(b) <= Fraction(epsilon)
    far = np.arange(0, int(60 * b) + 60)
    law = np.exp(-far / b)
    law /= law[0] + 2 * law[1:].sum()
    above = np.cumsum(law[::-1])[::-1]  # P(Z >= m), m = 0, 1, ...

    def seen(count):
        m = least - count
        return above[m] if m >= 0 else 1 - above[1 - m]

    assert seen(1) <= delta / (2 * columns) * (1 + 1e-9)
    if seen(1) > 1e-12:
        assert seen(3) > delta / (2 * columns)  # and hardly more noise than that
    for count in {*range(1, 2 * least, 1 + least // 100), least - 1, least, least + 1}:
        for one, other in ((seen(count), seen(count + 1)), (seen(count + 1), seen(count))):
            assert one <= other * math.exp(1 / b) * (1 + 1e-9)
            assert 1 - one <= (1 - other) * math.exp(1 / b) * (1 + 1e-9) + 1e-12


def test_what_one_record_has_is_not_seen():
    people = frame(kind=["a"] * 400 + ["b"] * 300 + ["only me"], n=[*range(700), 10**9])
    for seed in range(20):
        draft = private_draft(people, PROMISE, sampler=fast_sampler(seed))
        kind, number = draft["attributes"]
        assert kind == {"name": "kind", "keys": ["a", "b"]}
        assert number["cuts"][-1] < 2000
        assert "only me" not in json.dumps(draft)
        assert "epsilon 1 and delta 1e-06 were spent on 2 columns" in draft["notes"][0]
        form = as_schema(draft)
        counts = count_people(people, form)
        assert counts.sum() == 701
        assert form.attributes[0].labels == ("a", "b", "other")
    without = people.filter(pl.col("kind") != "only me")
    one, other = (private_draft(data, PROMISE, sampler=no_noise) for data in (people, without))
    assert one == other


@pytest.mark.parametrize("make", [list, sorted, lambda rows: rows[::-1]])
def test_the_way_and_the_order_of_writing_do_not_matter(make):
    ways = ["2", "2.0", "2.00", "20e-1"]
    rows = make([*ways * 30, *["true", "True"] * 60, *["2020-01-02", "2020-01-02 00:00:00"] * 60])
    (entry,) = private_draft(frame(a=rows), PROMISE, sampler=no_noise)["attributes"]
    assert entry["keys"] == ["2", "2020-01-02", "true"]
    many = make([str(i) for i in range(60) for _ in range(200)] + ["x"] * 300)
    (entry,) = private_draft(frame(a=many), PROMISE, sampler=no_noise)["attributes"]
    assert entry == {"name": "a", "cuts": [*range(0, 65, 10)]}
    names = make([f"k{i}" for i in range(60) for _ in range(200)])
    (entry,) = private_draft(frame(a=names), PROMISE, sampler=no_noise)["attributes"]
    assert entry["keys"] == sorted(sorted(f"k{i}" for i in range(60))[:30])


def test_numbers_that_hardly_repeat_have_ranges():
    rng = np.random.default_rng(3)
    for sign, top in ((1, 40000), (-1, 7)):
        values = sign * rng.uniform(0.9 * top, top, 3000)
        (entry,) = private_draft(frame(v=values), PROMISE, sampler=fast_sampler(1))["attributes"]
        low, *_, high = entry["cuts"]
        assert low <= values.min() <= values.max() < high
        assert high - low < 4 * top
    some = frame(v=[0.0] * 200 + rng.uniform(1, 100, 3000).tolist())
    (entry,) = private_draft(some, PROMISE, sampler=no_noise)["attributes"]
    assert entry["cuts"][0] == 0
    draft = private_draft(frame(a=["x"], v=[1.5]), PROMISE, sampler=no_noise)
    assert draft["attributes"] == []
    assert "no value or range is frequent enough in a, v" in draft["notes"][1]
    odd = frame(v=["1e999", "-1e999", "nan", "inf", "", None, "\n"] * 100)
    assert private_draft(odd, PROMISE, sampler=no_noise)["attributes"] in (
        [],
        [{"name": "v", "keys": ["inf", "nan"]}],
    )


@pytest.mark.parametrize("make", ["csv", "parquet", "pandas"])
def test_formats_have_the_same_draft(make, tmp_path):
    people = frame(sex=["F", "M"] * 200, n=[1, 2, 3, 4] * 100, ok=[True, False] * 200)
    data = tmp_path / f"p.{make}"
    if make == "csv":
        people.write_csv(data)
    elif make == "parquet":
        people.write_parquet(data)
    else:
        data = pandas.DataFrame(people.to_dict(as_series=False))
    draft = private_draft(data, PROMISE, sampler=no_noise)
    keys = {entry["name"]: entry["keys"] for entry in draft["attributes"]}
    assert keys == {
        "sex": ["F", "M"],
        "n": ["1", "2", "3", "4"],
        "ok": ["false", "true"],
    }


def test_a_ledger_pays_for_epsilon_and_delta(tmp_path):
    data, place, out = tmp_path / "p.csv", tmp_path / "l", tmp_path / "s.json"
    frame(sex=["F", "M"] * 200, age=[*range(100)] * 4).write_csv(data)
    ledger = Ledger(place, budget="epsilon=2,delta=2e-6,pure=1.5")
    made = private_draft(data, PROMISE, ledger=ledger, output=out, sampler=no_noise)
    assert json.loads(out.read_text()) == made
    spent = read_ledger(place).spent
    assert (spent.pure, spent.delta) == (1, Fraction(1, 10**6))
    for promise in (pml.ApproxDP(1.0, 1e-7), pml.ApproxDP(0.1, 1.1e-6)):
        with pytest.raises(InfeasibleError, match="the budget has no room"):
            private_draft(data, promise, ledger=Ledger(place), sampler=no_noise)
    # what is left is left for Gaussian noise, at what is left of delta
    asked = ["release", "sex", str(data), "--schema", str(out), "--ledger", str(place)]
    noise = ["--noise", "gaussian", "-o", str(tmp_path / "t.csv"), "--effort", "quick"]
    result = CliRunner().invoke(main, [*asked, *noise, "--epsilon", "0.5", "--delta", "1.2e-6"])
    assert result.exit_code == 5, result.output
    result = CliRunner().invoke(main, [*asked, *noise, "--epsilon", "0.5", "--delta", "9.9e-7"])
    assert result.exit_code == 0, result.output
    shown = CliRunner().invoke(main, ["ledger", "show", str(place)])
    assert "delta 1e-06 with drafts of schemas" in shown.output
    planned = Ledger(tmp_path / "q", budget="epsilon=2,delta=1e-6,pure=2", plan="2*laplace:1")
    with pytest.raises(InvalidInputError, match="a ledger with a plan is for the tables"):
        private_draft(data, PROMISE, ledger=planned, sampler=no_noise)
    with pytest.raises(InvalidInputError, match="give its path"):
        private_draft(frame(a=["x"]), PROMISE, ledger=ledger, sampler=no_noise)


def test_the_command(tmp_path):
    data, out = tmp_path / "p.csv", tmp_path / "s.json"
    frame(sex=["F", "M"] * 2000, age=[*range(80)] * 50).write_csv(data)
    asked = ["schema", "draft", str(data), "--private", "--epsilon", "5", "--delta", "1e-6"]
    result = CliRunner().invoke(main, [*asked, "--columns", "sex", "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert [entry["keys"] for entry in json.loads(out.read_text())["attributes"]] == [["F", "M"]]
    for more, message in (
        (["--columns", "sex,x"], "columns must be different ones of the data"),
        (["--columns", "sex,sex"], "columns must be different ones of the data"),
        (["--budget", "epsilon=1"], "needs a ledger"),
    ):
        result = CliRunner().invoke(main, [*asked, *more])
        assert result.exit_code == 2, result.output
        assert message in result.output
    for options in ("--epsilon 1", "--delta 0.1", "--columns sex", "--ledger l"):
        result = CliRunner().invoke(main, ["schema", "draft", str(data), *options.split()])
        assert result.exit_code == 2
        assert "is for a private draft" in result.output
    result = CliRunner().invoke(main, [*asked[:4], "--epsilon", "1"])
    assert "needs --epsilon and --delta" in result.output
    with pytest.raises(InvalidInputError, match="add-remove"):
        private_draft(frame(a=["x"]), pml.ApproxDP(1, 1e-6, "replace"), sampler=no_noise)
