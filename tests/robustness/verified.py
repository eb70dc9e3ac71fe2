"""Honest and altered strategy files, each of which is verified.

    python tests/robustness/verified.py [--files 1000] [--seed 0]

Prints how many honest files fail and how many altered ones pass; both have to be 0. A file is
altered in one number of its header or one entry of an array, by a part from 1e-6 to 1 of it. Then
the same with a digest that fits what was altered: dual weights that prove the same bound, and
bounds weakened by less than the tolerance, are true claims and may pass.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

import pmldesign as pml
from pmldesign.verify.digest import KEY, digest_of
from pmldesign.verify.reading import read_archive

WORKLOADS = ("prefix:7", "histogram:5", "all-range:5", "prefix:3*total:2+total:3*prefix:2")
EXPONENTS = (2.0, 3.0, 4.5, np.inf)


def honest_file(path, rng):
    """A strategy file of a random workload, exponent, relation, strategy and guarantee."""
    name = str(rng.choice(WORKLOADS))
    neighbours = str(rng.choice(["add-remove", "replace"]))
    p = float(rng.choice(EXPONENTS))
    queries = pml.workload(name)
    if rng.random() < 0.3:
        queries = rng.standard_normal((int(rng.integers(2, 9)), int(rng.integers(2, 7))))
    best = pml.factorize(queries, p=p, neighbours=neighbours)
    guarantee = random_guarantee(rng, neighbours)
    if rng.random() < 0.4:
        pml.write_strategy(path, best)
    elif rng.random() < 0.5:
        pml.write_strategy(path, best, mechanism=pml.mechanism(best, guarantee=guarantee))
    else:
        pml.write_strategy(path, pml.mechanism("identity", queries, guarantee=guarantee, p=p))
    return pml.workload(queries) if isinstance(queries, np.ndarray) else queries


def random_guarantee(rng, neighbours):
    """One of the five kinds; PML where neighbours are replaced."""
    epsilon, delta, alpha = rng.uniform(0.3, 1.2), 10 ** rng.uniform(-8, -3), rng.uniform(0.01, 0.1)
    if neighbours == "add-remove":
        return pml.PureDP(epsilon) if rng.random() < 0.3 else pml.ApproxDP(epsilon, delta)
    kinds = (
        pml.PureDP(epsilon, "replace"),
        pml.ApproxDP(epsilon, delta, "replace"),
        pml.PML(epsilon, alpha),
        pml.ApproxPML(epsilon, delta, alpha),
        pml.EnvelopePML(epsilon, delta, alpha),
    )
    return kinds[rng.integers(len(kinds))]


def altered(header, arrays, rng):
    """A copy with one number changed, and what it is called."""
    header, arrays = json.loads(json.dumps(header)), {k: v.copy() for k, v in arrays.items()}
    part = 10 ** rng.uniform(-6, 0) * rng.choice([-1, 1])
    places = [
        (holder, key)
        for holder in (header, header.get("guarantee_numbers", {}))
        for key, value in holder.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if rng.random() < 0.4:
        holder, key = places[rng.integers(len(places))]
        holder[key] = (
            holder[key] * (1 + part) if isinstance(holder[key], float) else holder[key] + 1
        )
        return header, arrays, key
    name = str(rng.choice(sorted(arrays)))
    flat = arrays[name].reshape(-1)
    place = rng.integers(flat.size)
    size = abs(flat[place]) or np.abs(flat).max()
    flat[place] += part * size
    return header, arrays, name


def write(path, header, arrays, *, renew):
    """The file with its old digest, or one that fits."""
    header = {**header, KEY: digest_of(header, arrays)} if renew else header
    np.savez(path, header=np.array(json.dumps(header)), **arrays)


def passes(path, queries):
    """Whether all claims hold, or are not checked."""
    try:
        return pml.verify_file(path, workload=queries).holds
    except pml.PmldesignError:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    failed, passed, forged = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "strategy.npz"
        for number in range(arguments.files):
            queries = honest_file(path, rng)
            if not passes(path, queries):
                failed.append(number)
                print(number, pml.verify_file(path, workload=queries).failures)
            header, arrays = read_archive(path)
            other, entries, name = altered(header, arrays, rng)
            write(path, other, entries, renew=False)
            if passes(path, queries):
                passed.append((number, name))
            write(path, other, entries, renew=True)
            if passes(path, queries):
                forged.append(name)
    names = {name: forged.count(name) for name in sorted(set(forged))}
    print(f"{arguments.files} honest files, {len(failed)} fail: {failed[:10]}")
    print(f"{arguments.files} altered files, {len(passed)} pass: {passed[:10]}")
    print(f"the same with a digest that fits: {len(forged)} pass: {names}")
    return 1 if failed or passed else 0


if __name__ == "__main__":
    raise SystemExit(main())
