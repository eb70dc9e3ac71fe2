"""False files with a digest that fits: none passes. `tests/robustness/forged.py` has more."""

import numpy as np
import pytest
from click.testing import CliRunner
from forgery import Base, is_true, mutate, write
from test_statements import CASES, written

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.verifier import read_archive, read_object

FORGED = 12
PATHS = {"strategy": "s.npz", "manifest": "r.manifest.json", "measurements": "m.npz"}


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forged")
    made = []
    for case in ("matrix", "marginals", "stream", "known"):
        name, options, _ = CASES[case]
        held = written(folder / "s.npz", case)
        made.append(Base("strategy", *held, name, options.get("known")))
    noisy = pml.mechanism("identity", "histogram:4", guarantee=pml.PureDP(1))
    published = pml.release(noisy, np.arange(4))
    published.save(folder / "r.csv")
    made.append(Base("manifest", read_object(folder / "r.manifest.json")))
    published.measurements.save(folder / "m.npz")
    made.append(Base("measurements", *read_archive(folder / "m.npz"), "histogram:4"))
    return folder, made


@pytest.mark.parametrize("number", range(6))
def test_no_false_file_passes(bases, number):
    folder, made = bases
    rng, base, false = np.random.default_rng(number), made[number], 0
    path = folder / PATHS[base.kind]
    write(path, *base.copy())
    assert is_true(base, base, base.content, base.arrays, path)
    while false < FORGED:
        other = made[rng.integers(len(made))]
        forged = mutate(base, other, rng)
        if forged is None:
            continue
        how, content, arrays = forged
        write(path, content, arrays)
        try:
            result = pml.verify(path)
        except pml.FileError:
            false += 1
            continue
        passes = result.holds if base.kind == "strategy" else not result.failures
        assert not passes or is_true(base, other, content, arrays, path), (how, content)
        false += not passes


def test_false_measurements_are_answered_or_refused_in_a_line(bases):
    folder, made = bases
    base, rng, refused = made[-1], np.random.default_rng(1), 0
    for _ in range(80):
        forged = mutate(base, made[rng.integers(len(made))], rng)
        if forged is None:
            continue
        write(folder / "m.npz", *forged[1:])
        words = ["ask", str(folder / "m.npz"), "histogram:4"]
        result = CliRunner().invoke(main, words, prog_name="pmldesign")
        assert result.exit_code in (0, 2, 6), (forged, result.exception)
        assert result.exit_code == 0 or result.output.startswith("error: ")
        refused += result.exit_code > 0
    assert refused
