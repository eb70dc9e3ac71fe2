import pytest
from journals import RATE, N

from pmldesign.designs import factorize


@pytest.fixture(scope="session")
def designed():
    return factorize(f"decay:{N},{RATE}", buffers=4, rel_gap=1e-1)
