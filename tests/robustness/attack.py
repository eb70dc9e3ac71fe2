"""Random matrices of every scale against the certificates: `make robust`.

    python tests/robustness/attack.py [cases] [seed]

Every matrix is solved for both relations at p in 2, 3, 10, 1000, inf. Its entries are normal,
whole or zero and one; some have rows, some columns over ten orders of magnitude; all are scaled by
10^-140 to 10^140; under replace rows get constants up to 10^12 times their size. Both bounds are
recomputed in extended precision from what the solver returns, and none may contradict them; at
most 1 % may stay farther apart than 1e-6.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "solvers"))

import extended

from pmldesign_solvers.norm import solve_norm
from pmldesign_solvers.operators import DenseOperator

EXPONENTS = (2.0, 3.0, 10.0, 1000.0, np.inf)
LARGEST = 7


def random_case(rng: np.random.Generator) -> tuple[np.ndarray, float, str, str]:
    """A matrix, p, the relation, and what is odd about the matrix."""
    m, n = rng.integers(1, LARGEST, 2)
    p, relation = float(rng.choice(EXPONENTS)), str(rng.choice(["add-remove", "replace"]))
    n = max(n, 2) if relation == "replace" else n
    entries = str(rng.choice(["normal", "whole", "zeros and ones"]))
    if entries == "normal":
        A = rng.standard_normal((m, n))
    elif entries == "whole":
        A = rng.integers(-9, 10, (m, n)).astype(float)
    else:
        A = rng.integers(0, 2, (m, n)).astype(float)
    odd = [entries]
    if rng.random() < 0.3:
        A *= 10.0 ** rng.uniform(-5, 5, (m, 1))
        odd.append("rows")
    if rng.random() < 0.15:
        A *= 10.0 ** rng.uniform(-5, 5, (1, n))
        odd.append("columns")
    if relation == "replace" and rng.random() < 0.4:
        spread = np.ptp(A, axis=1, keepdims=True)
        A = A + spread * 10.0 ** rng.uniform(0, 12, (m, 1)) * rng.choice([-1, 0, 1], (m, 1))
        odd.append("offsets")
    A *= 10.0 ** rng.uniform(-140, 140)
    return A, p, relation, ", ".join(odd)


def verdict(A: np.ndarray, p: float, relation: str) -> tuple[str, float]:
    """What is wrong with the solver's answer, "" for nothing; and its gap."""
    apart = A if relation == "add-remove" else A - A[:, :1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = solve_norm(DenseOperator(A), p, relation=relation)
    except ValueError as error:
        trivial = not apart.any() or (abs(apart) <= 2e-16 * abs(A).max(axis=1)[:, None]).all()
        return ("" if trivial else f"refused: {error}"), 0.0
    except Exception as error:
        return f"{type(error).__name__}: {error}", np.inf
    bounds = found.certificate
    low = extended.lower(A, found.dual_u, found.dual_w, p)
    high = extended.upper(A, found.strategy, found.right_inverse, p, relation)
    if bounds.lower > low * (1 + extended.SLACK):
        return f"lower bound {bounds.lower} above {low}", bounds.gap
    if bounds.upper < high * (1 - extended.SLACK):
        return f"upper bound {bounds.upper} below {high}", bounds.gap
    return "", bounds.gap


def main(cases: int = 10_000, seed: int = 0) -> int:
    """Attack, print what was found, and return the number of contradictions."""
    rng = np.random.default_rng(seed)
    wide: Counter[str] = Counter()
    wrong, far, start = 0, 0, time.process_time()
    for case in range(cases):
        A, p, relation, odd = random_case(rng)
        problem, gap = verdict(A, p, relation)
        if problem:
            wrong += 1
            print(f"case {case}: {relation}, p = {p:g}, {odd}: {problem}\n{A!r}", flush=True)
        if gap > 1e-6:
            far += 1
            wide[f"{relation}, p = {p:g}, {odd}"] += 1
    print(f"{cases} matrices, {time.process_time() - start:.0f} s: {wrong} wrong,")
    print(f"{far} ({100 * far / cases:.2f} %) with a gap above 1e-6")
    for what, count in wide.most_common(12):
        print(f"{count:6d}  {what}")
    return wrong + (far > cases // 100)


if __name__ == "__main__":
    sys.exit(min(1, main(*(int(argument) for argument in sys.argv[1:]))))
