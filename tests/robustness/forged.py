"""False files of every kind, with a digest that fits: how many does `verify` take for true?

    python tests/robustness/forged.py [--files 10000] [--seed 0]

`tests/verify/forgery.py` mutates honest files and judges what stays true. Prints how many files
were false and which of them passed: with exit code 0, or, as a part of a manifest is never checked,
with a manifest of which no claim fails. None may pass. Files that pass and are true do not count.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from verified import FORMS, PLAIN, envelope, form, random_guarantee

import pmldesign as pml
from pmldesign.files import strategies as writer
from pmldesign.verifier import read_archive, read_object

sys.path.insert(0, str(Path(__file__).parent.parent / "verify"))

from forgery import Base, is_true, mutate, write

DENSE = ("prefix:7", "histogram:5", "all-range:5")
KNOWN = (("prefix:6", "histogram:3*total:2"), ("prefix:8*histogram:6", "total:8*histogram:6"))
RELEASED = ("histogram:5", "prefix:6", PLAIN)
PEOPLE = ("3,any", "2,one-per=cell", "2,one-per=1x3x2")


def strategy_base(path, queries, known=None):
    header, arrays = read_archive(path)
    return Base("strategy", header, arrays, queries, known)


def written_bases(path, rng):
    """Files of strategies with bounds and noise."""
    for name in DENSE:
        for neighbours in ("add-remove", "replace"):
            for p in (2.0, 3.0, np.inf):
                best = pml.factorize(name, p=p, neighbours=neighbours)
                promise = random_guarantee(rng, neighbours, best.workload.shape[1])
                pml.write(path, best, mechanism=pml.mechanism(best, guarantee=promise))
                yield strategy_base(path, name)
        pml.write(path, best)
        yield strategy_base(path, name)
    for name, known in KNOWN:
        best = pml.factorize(name, known=known)
        noisy = pml.mechanism(best, name, guarantee=pml.ApproxDP(1, 1e-6), known=known)
        pml.write(path, best, mechanism=noisy)
        yield strategy_base(path, name, known)
    for people in PEOPLE:
        best = pml.factorize("prefix:6", participation=people)
        for noise in ("gaussian", "laplace", "cube"):
            promise = pml.ApproxDP(1.0, 1e-6)
            noisy = pml.mechanism(best, guarantee=promise, noise=noise)
            pml.write(path, best, mechanism=noisy)
            yield strategy_base(path, "prefix:6")
    for name in ("prefix:4", "prefix:6"):
        pml.write(path, pml.optimize(name, guarantee=pml.PureDP(4.0), effort="quick").best)
        yield strategy_base(path, name)
    least = pml.least_budget("prefix:6", pml.ApproxDP(1, 1e-6), targets=5.0, noise="gaussian")
    pml.write(path, least.mechanism)
    yield strategy_base(path, "prefix:6")


def form_bases(path, rng):
    """Files of strategies that are not written out."""
    largest, writer.WRITTEN_ENTRIES = writer.WRITTEN_ENTRIES, 10
    try:
        for name in FORMS:
            strategy, queries = form(name)
            neighbours = FORMS[name][2] or str(rng.choice(["add-remove", "replace"]))
            if isinstance(strategy, pml.Design):
                promise = random_guarantee(rng, neighbours, strategy.workload.shape[1])
                noisy = pml.mechanism(strategy, guarantee=promise)
                pml.write(path, strategy, mechanism=noisy)
            else:
                promise = random_guarantee(rng, neighbours, strategy.shape[1])
                pml.write(path, pml.mechanism(strategy, queries, guarantee=promise))
            yield strategy_base(path, read_archive(path)[0]["workload"])
    finally:
        writer.WRITTEN_ENTRIES = largest


def object_bases(folder, rng):
    """Manifests with their tables, and certificates."""
    for name in RELEASED:
        for number in range(3):
            neighbours = ("add-remove", "replace")[number % 2]
            cells = pml.workload(name).shape[1]
            promise = random_guarantee(rng, neighbours, cells)
            currency = isinstance(promise, pml.ZCDP | pml.GaussianDP | pml.RenyiDP)
            noise = "gaussian" if currency else "auto"
            noisy = pml.mechanism("identity", name, guarantee=promise, noise=noise)
            path = folder / "r.csv"
            pml.release(noisy, rng.integers(0, 9, cells)).save(path)
            content = read_object(path.with_suffix(".manifest.json"))
            yield Base("manifest", content, beside={"r.csv": path.read_bytes()})
    for number, noise in enumerate(("laplace", "cube", "gaussian")):
        people = {"guarantee": pml.ApproxDP(1.0, 1e-6), "participation": PEOPLE[number]}
        noisy = pml.mechanism("identity", "prefix:6", noise=noise, **people)
        path = folder / "r.csv"
        pml.release(noisy, rng.integers(0, 9, 6)).save(path)
        content = read_object(path.with_suffix(".manifest.json"))
        yield Base("manifest", content, beside={"r.csv": path.read_bytes()})
    for _ in range(3):
        path = folder / "certificate.json"
        envelope(path, rng)
        yield Base("envelope", read_object(path))


def measured_bases(path, rng):
    """Measurements of matrices with Laplace and cube noise, of single rows and of people."""
    kinds = (("laplace", None), ("laplace", "2,any"), ("cube", "3,any"))
    for name, (noise, people) in zip(DENSE, kinds, strict=True):
        cells, promise = pml.workload(name).shape[1], pml.PureDP(1.0)
        options = {"guarantee": promise, "participation": people}
        noisy = pml.mechanism("identity", name, noise=noise, **options)
        pml.release(noisy, rng.integers(0, 9, cells)).measurements.save(path)
        yield Base("measurements", *read_archive(path), name)


def passes(base, path):
    """Whether a user would take the file for true."""
    try:
        result = pml.verify(path)
    except pml.PmldesignError:
        return False
    return not result.failures if base.kind in ("manifest", "measurements") else result.holds


def path_of(base, folder):
    names = {"strategy": "s.npz", "manifest": "r.manifest.json", "envelope": "certificate.json"}
    names["measurements"] = "m.npz"
    for name, content in base.beside.items():
        (folder / name).write_bytes(content)
    return folder / names[base.kind]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    passed, counts = [], Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bases = [*written_bases(folder / "s.npz", rng), *form_bases(folder / "s.npz", rng)]
        bases += [*object_bases(folder, rng), *measured_bases(folder / "m.npz", rng)]
        for number, base in enumerate(bases):
            path = path_of(base, folder)
            write(path, *base.copy())
            assert passes(base, path), (number, pml.verify(path))
            assert is_true(base, base, base.content, base.arrays, path), number
        while counts["false"] < arguments.files:
            base, other = (bases[i] for i in rng.integers(len(bases), size=2))
            made = mutate(base, other, rng)
            if made is None:
                continue
            how, content, arrays = made
            path = path_of(base, folder)
            write(path, content, arrays)
            took = passes(base, path)
            true = is_true(base, other, content, arrays, path) if took else None
            counts["true"] += bool(true)
            counts["false"] += not true
            if took and not true:
                passed.append((base.content.get("workload"), how))
                print(how, base.kind, base.content.get("workload"), told(base, content, arrays))
    print(f"{dict(counts)}; {len(passed)} false files pass: {Counter(passed)}")
    return 1 if passed else 0


def told(base, content, arrays):
    """What was changed."""
    claims = {
        k: (base.content.get(k), content.get(k)) for k in base.content.keys() | content.keys()
    }
    changed = {k: v for k, v in claims.items() if v[0] != v[1] and k != "sha256"}
    names = base.arrays.keys() | arrays.keys()
    other = [n for n in names if not np.array_equal(base.arrays.get(n), arrays.get(n))]
    return str(changed)[:600], other


if __name__ == "__main__":
    raise SystemExit(main())
