"""Files whose arrays were changed, and all claims made to be what `verify` computes from them.

Nothing contradicts anything there. What is false shows beside an honest file for the same queries:
its upper bound is above every lower one.
"""

import numpy as np
import pytest
from forgery import fitted

import pmldesign as pml
from pmldesign.files import strategies as writer
from pmldesign.verify import Verdict, read_archive
from pmldesign.verify.forms import form



def honest(path, name, **options):
    """A file of a design, its header and its arrays."""
    best = pml.factorize(name, **options)
    promise = pml.ApproxDP(1.0, 1e-6, options.get("neighbours", "add-remove"))
    pml.write_strategy(
        path, best, mechanism=pml.mechanism(best, guarantee=promise, noise="gaussian")
    )
    return read_archive(path)


def claims(result, name):
    """Whether `verify` takes a number for true."""
    return any(c.name == name and c.verdict is Verdict.HOLDS for c in result.checks)


@pytest.fixture
def unwritten(monkeypatch):
    """Small strategies in the files and the checks of large ones."""
    monkeypatch.setattr(writer, "WRITTEN_ENTRIES", 10)
    monkeypatch.setattr(form, "MOST_CELLS", 3)


def one_weight(arrays):
    arrays["dual_u"] = np.ones(1)


def small_weights(arrays):
    arrays["dual_u"] = np.full_like(arrays["dual_u"], 1e-3)


def other_weights(arrays):
    arrays["dual_u"] = np.linspace(0.1, 0.01, arrays["dual_u"].size)


@pytest.mark.parametrize(
    ("name", "options", "change"),
    [
        ("prefix:40", {"p": np.inf, "buffers": 3}, one_weight),
        ("prefix:40", {"p": 4.0, "buffers": 3}, one_weight),
        ("prefix:40", {"p": np.inf, "buffers": 3, "neighbours": "replace"}, one_weight),
        ("all-range:20", {"buffers": 3}, one_weight),
        ("all-range:20", {"buffers": 3}, small_weights),
        ("all-range:20", {"buffers": 3}, other_weights),
    ],
)
def test_dual_weights_of_a_stream_are_of_its_queries(name, options, change, tmp_path, unwritten):
    """At p = inf the norm of weights is their sum: that of one is less than that of forty."""
    path = tmp_path / "s.npz"
    header, arrays = honest(path, name, **options)
    assert header["form"] in ("stream", "all ranges")
    best = header["upper"]
    change(arrays)
    result = fitted(path, header, arrays)
    assert not claims(result, "lower") or header["lower"] <= best, (header["lower"], best)


def test_dual_weights_are_of_steps_that_there_are(tmp_path, unwritten):
    """The norm of longer streams is larger."""
    path = tmp_path / "s.npz"
    header, arrays = honest(path, "prefix:10", participation="4,every=4")
    assert header["form"] == "epochs"
    best = header["upper"]
    arrays["dual_u"], arrays["dual_w"] = np.full(16, 1 / 16), np.tile(np.eye(4) + 0.5, (4, 1, 1))
    result = fitted(path, header, arrays)
    assert not claims(result, "lower") or header["lower"] <= best, (header["lower"], best)


def test_a_single_query_has_a_single_dual_weight(tmp_path):
    """A row that is repeated twelve times has a larger norm."""
    path = tmp_path / "s.npz"
    header, arrays = honest(path, "total:12", participation="4,every=3")
    arrays["dual_u"], arrays["dual_w"] = np.ones(12), np.full((3, 4, 4), 1 / 50)
    best = header["upper"]
    result = fitted(path, header, arrays)
    assert not claims(result, "lower") or header["lower"] <= best, (header["lower"], best)
