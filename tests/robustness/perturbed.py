"""The named cases of the solvers' tests, moved by what must not matter: `make robust`.

    python tests/robustness/perturbed.py

Every case is solved as it is, with rows and columns permuted, with entries moved by one unit in
the last place, and scaled by powers of two. The bounds may differ in their last digits, the status
never. Another processor rounds differently; OPENBLAS_CORETYPE (Haswell, Nehalem, SkylakeX ...)
chooses the kernels of one.
"""

from __future__ import annotations

import ast
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "solvers"))

from small_unions import EXPONENTS, TEXTS

from pmldesign.errors import PmldesignError
from pmldesign.workloads import TermsWorkload, attribute_queries, parse_workload, products_over
from pmldesign_solvers.norm import solve_norm
from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.unions import solve as unions

SOLVERS = Path(__file__).parent.parent / "solvers"
NAMES = (
    *("histogram:5", "total:4", "prefix:8", "prefix:33", "all-range:9", "window:12,4", "haar:8"),
    *("parity:4,2", "random-range:8,8,seed=1", "random-range:5,12,seed=2", "marginals:3,4,ways=1"),
    *("prefix:4*total:2", "prefix:5*histogram:3+histogram:5*total:3", "marginals:2,3,3,ways=2"),
)
P = (2.0, 3.0, 10.0, 1000.0, np.inf)
LOOSE = 1e-5
"""Largest relative difference of bounds that are 1e-6 apart."""


MOST_CELLS, MOST_QUERIES = 40, 200
"""Of the workloads that are solved: each takes 70 solutions."""


def cases() -> list[str]:
    """The names above, and every small workload that the tests of the solvers name."""
    words = {
        node.value
        for path in SOLVERS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value
    }
    return [*NAMES, *sorted(filter(_small, words - {*NAMES}))]


def _small(word: str) -> bool:
    try:
        queries, cells = parse_workload(word).shape
    except PmldesignError:
        return False
    return queries <= MOST_QUERIES and cells <= MOST_CELLS


def moved(A: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, float]]:
    """What is done to a matrix, the matrix, and the factor of its norm."""
    rows, columns = rng.permutation(A.shape[0]), rng.permutation(A.shape[1])
    yield "permuted", A[np.ix_(rows, columns)], 1.0
    yield "one ulp", np.nextafter(A, np.where(rng.random(A.shape) < 0.5, 9, -9) * abs(A)), 1.0
    for exponent in (-400, -7, 90, 600):
        yield f"times 2^{exponent}", np.ldexp(A, exponent), 2.0**exponent


def matrices(rng: np.random.Generator) -> int:
    """Solve the matrices; the number of differences."""
    different = 0
    for name in cases():
        A = parse_workload(name).to_dense()
        for relation in ("add-remove", "replace"):
            if relation == "replace" and not np.ptp(A, axis=1).any():
                continue
            for p in P:
                plain = solve_norm(DenseOperator(A), p, relation=relation)
                for what, B, factor in moved(A, rng):
                    other = solve_norm(DenseOperator(B), p, relation=relation)
                    bounds = np.array([other.certificate.lower, other.certificate.upper]) / factor
                    far = abs(bounds / plain.certificate.upper - 1).max()
                    if other.status is not plain.status or far > LOOSE:
                        different += 1
                        print(
                            f"{name}, {relation}, p = {p:g}, {what}: {plain.status.name}", end=" "
                        )
                        print(f"{other.status.name}, {far:.1e}", flush=True)
    return different


def structured(rng: np.random.Generator) -> int:
    """Solve the unions with their parts permuted; the number of differences."""
    different = 0
    for text in TEXTS:
        for p in EXPONENTS:
            workload = parse_workload(text)
            order = rng.permutation(len(workload.terms))
            terms = [workload.terms[i] for i in order]
            turned = TermsWorkload(workload.domain, terms, name="turned")
            found = [_union(union, p) for union in (workload, turned)]
            if len({solution.status for solution in found}) > 1:
                different += 1
                print(f"{text}, p = {p:g}: {[solution.status.name for solution in found]}")
    return different


def _union(workload: TermsWorkload, p: float) -> unions.UnionSolution:
    parts = products_over(workload, workload.domain)
    return unions.solve(workload, parts, attribute_queries(workload), p)


def main() -> int:
    """Solve everything, and return the number of differences."""
    warnings.simplefilter("error")
    rng, start = np.random.default_rng(0), time.process_time()
    different = matrices(rng) + structured(rng)
    print(f"{different} differences, {time.process_time() - start:.0f} s")
    return different


if __name__ == "__main__":
    sys.exit(min(1, main()))
