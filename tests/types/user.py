"""A program of a user, with every public function: `mypy --strict` accepts it, and it runs."""

from pathlib import Path

import numpy as np

import pmldesign as pml

SCHEMA = {"attributes": [{"name": "sex", "keys": ["F", "M"]}], "person": "id", "rows_per_person": 2}
PEOPLE = "id,sex\n1,F\n1,M\n2,F\n"


def designs(queries: pml.Workload, promise: pml.Guarantee) -> pml.Mechanism:
    """Design, compare and bound."""
    best: pml.Design = pml.factorize("prefix:4", p=4, rel_gap=1e-4, neighbours="replace")
    print(best.certificate.lower, pml.strategy(best).shape, pml.strategy(np.eye(4)).matrix)
    tree: pml.Strategy = pml.baseline("tree", pml.workload("prefix:4", weights=[1, 1, 2, 2]))
    noisy = pml.mechanism(tree, "prefix:4", pml.PML(1, 0.1), noise="laplace")
    print(noisy.rmse, pml.calibrate(tree, pml.PureDP(1, "add-remove"), noise="laplace").scale)
    result: pml.Optimized = pml.optimize(queries, promise, effort="quick", time_limit=9)
    for row in result:
        print(row.strategy, row.error)
    shown: pml.Comparison = pml.compare(queries, promise, strategies=["identity", result], p=[2, 4])
    print(shown.rows[0].ratio, shown.to_latex())
    for bound in pml.bounds(queries, promise, max_steps=50):
        print(bound.name, bound.value)
    least: pml.LeastBudget = pml.least_budget(
        [[1, 0], [1, 1]], pml.ZCDP(1, neighbours="add-remove"), targets=[3, 5], noise="gaussian"
    )
    print(least.enough, pml.compose([least.mechanism, least.mechanism]).epsilon(1e-6))
    return result.best


def publish(noisy: pml.Mechanism, folder: Path) -> list[Path]:
    """Release, save, read, verify."""
    (folder / "people.csv").write_text(PEOPLE)
    published: pml.Release = pml.release(
        noisy,
        folder / "people.csv",
        ledger=pml.Ledger(folder / "ledger", budget=pml.Budget(3, 1e-6, 2)),
        level=0.9,
        nonnegative=True,
    )
    again = noisy.release(folder / "people.csv", integers=True, ledger=folder / "ledger")
    pml.write(folder / "noisy.npz", noisy)
    read = pml.read(folder / "noisy.npz")
    assert isinstance(read, pml.Strategy)
    assert read.guarantee == noisy.guarantee
    checked: pml.Verification = pml.verify(folder / "noisy.npz", workload=noisy.workload)
    print(checked.failures, published.to_frame(), again.manifest["noise"])
    study = {"workloads": ["prefix:4"], "strategies": ["tree"]}
    print(pml.sweep(study, folder / "rows.sqlite").to_frame(), pml.plots.progress())
    return [*published.save(folder / "table.csv")]


if __name__ == "__main__":
    asked = pml.workload("sex", schema=pml.Schema.of(SCHEMA))
    print(publish(designs(asked, pml.ApproxDP(1, delta=1e-6)), Path.cwd()))
