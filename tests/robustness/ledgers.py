"""Six processes on one ledger, killed or without disk: never over budget, nothing unpaid.

    python tests/robustness/ledgers.py [rounds] [seed] [postgresql://...]

Every round six processes release from one ledger until it has no room. Four are killed at random
moments, two find a full disk: in a file, and in a PostgreSQL database if one is named. Afterwards
what was spent is within the budget, every table was paid for, and what is left can be spent.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "release"))

import killed_ledgers


def main(rounds: int = 100, seed: int = 0, server: str = "") -> int:
    """Attack, print what was found, and return how much was wrong."""
    rng, wrong, counts = np.random.default_rng(seed), Counter(), Counter()
    prepared = killed_ledgers.prepared_release()
    for number in range(rounds):
        for place in filter(None, ("ledger", server)):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                killed_ledgers.PEOPLE = f"panel {seed} {number}"
                found, published, kills = killed_ledgers.attacked(
                    prepared,
                    server if place == server else folder / place,
                    folder,
                    rng,
                    processes=6,
                    longest=0.15,
                )
                wrong.update(found)
                counts.update(rounds=1, published=published, kills=kills)
    print(dict(counts), dict(wrong) or "nothing wrong")
    return sum(wrong.values())


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3]), *sys.argv[3:]) > 0)
