import gc
import os

import pytest
from hypothesis import settings

# timing never decides a test, and a run can be repeated; --hypothesis-seed looks elsewhere, and
# --hypothesis-profile thorough at more
settings.register_profile("pmldesign", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=400)
settings.load_profile("pmldesign")


def pytest_collection_finish():
    gc.freeze()  # what is loaded stays: the collector need not walk it again and again


@pytest.fixture
def quick_disk(monkeypatch):
    """A killed process leaves to the system what it has written."""
    monkeypatch.setattr(os, "fsync", lambda _handle: None)
