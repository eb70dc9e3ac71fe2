import gc
import os

import pytest
from hypothesis import settings
from sweeps import left_out

from pmldesign import store
from pmldesign_solvers.operators import Effort

# timing never decides a test, and a run of the same files can be repeated: examples depend on the
# numbers in all that is imported. --hypothesis-profile thorough looks elsewhere, and at more; it
# alone heeds --hypothesis-seed
settings.register_profile("pmldesign", deadline=None, derandomize=True, max_examples=12)
settings.register_profile("thorough", deadline=None, max_examples=400)
settings.load_profile("pmldesign")


def pytest_addoption(parser):
    parser.addoption("--sweeps", action="store_true", help="all combinations, not a sample")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--sweeps"):
        beside = left_out(items)
        config.hook.pytest_deselected(items=[item for item in items if item in beside])
        items[:] = [item for item in items if item not in beside]


def pytest_collection_finish():
    gc.freeze()  # what is loaded stays: the collector need not walk it again and again
    gc.set_threshold(50_000)


@pytest.fixture
def quick_disk(monkeypatch):
    """A killed process leaves to the system what it has written."""
    monkeypatch.setattr(os, "fsync", lambda _handle: None)
    monkeypatch.setattr(store, "SYNCHRONOUS", "OFF")


WORK = {"quick": 2e9, "normal": 2e11, "thorough": float("inf")}
"""A tenth of the work that effort "quick" does for users."""


@pytest.fixture(autouse=True)
def briefly(request, monkeypatch):
    """Quick searches do less work than users let them do, outside of tests marked full_work."""
    if not request.node.get_closest_marker("full_work"):
        monkeypatch.setattr(Effort, "work", property(lambda effort: WORK[effort.value]))


@pytest.fixture
def little_work(monkeypatch):
    """Searches end early, after the same work on every machine."""
    monkeypatch.setattr(Effort, "work", 1e9)


@pytest.fixture
def unarranged(monkeypatch):
    """The parts of pictures stay where they are first put: to arrange them takes half of the time.

    For tests that ask whether there is a picture; those in tests/plots see the whole one.
    """
    engine = "matplotlib.layout_engine.ConstrainedLayoutEngine.execute"
    monkeypatch.setattr(engine, lambda *_: None)
