"""Releases of random schemas, with numbers, persons, levels and invariants: all of them verify.

python tests/robustness/released.py [releases] [seed]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "verify"))

from random_releases import NOISES, random_case, released, verified

import pmldesign as pml


def main(releases: int = 300, seed: int = 0) -> int:
    """Release and verify; the number of releases that fail."""
    rng = np.random.default_rng(seed)
    made, failed = 0, 0
    unchecked: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        while made < releases:
            case = random_case(rng, NOISES[made % len(NOISES)])
            try:
                published = released(case)
            except pml.InvalidInputError:
                continue
            made += 1
            results = verified(published, case, Path(folder))
            for result in results:
                unchecked.update(check.name for check in result.unchecked)
            failures = [check for result in results for check in result.failures]
            if failures:
                failed += 1
                print(case, failures, flush=True)
    print(f"{made} releases, {failed} fail; not checked: {dict(unchecked)}")
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main(*(int(argument) for argument in sys.argv[1:]))))
