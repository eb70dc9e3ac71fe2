"""Honest and altered files of all kinds, each of which is verified.

    python tests/robustness/verified.py [--files 1000] [--seed 0]

Strategy files with matrices and of every other form, manifests of releases and certificates of
envelopes. Prints how many honest files fail and how many altered ones pass; both have to be 0. A
file is altered in one number of its header or one entry of an array, by a part from 1e-6 to 1 of
it. Then the same with a digest that fits what was altered: dual weights that prove the same bound,
and bounds weakened by less than the tolerance, are true claims and may pass.
"""

import argparse
import json
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main as main_command
from pmldesign.designs import DesignOptions, question, solve_tables
from pmldesign.files import strategies as writer
from pmldesign.strategies import (
    BlockStrategy,
    IdentityAndRows,
    ProductStrategy,
    Strategy,
    WeightedTablesStrategy,
)
from pmldesign.verifier import KEY, OBJECT, digest_of, digest_of_object, read_archive
from pmldesign.verifier.forms import form as form_files

WORKLOADS = ("prefix:7", "histogram:5", "all-range:5", "prefix:3*total:2+total:3*prefix:2")
EXPONENTS = (2.0, 3.0, 4.5, np.inf)
MATRIX, FORM, MANIFEST, ENVELOPE = "matrix", "form", "manifest", "envelope"
SHARES = {MATRIX: 0.5, FORM: 0.34, MANIFEST: 0.1, ENVELOPE: 0.06}
NAMES = {MATRIX: "s.npz", FORM: "s.npz", MANIFEST: "r.manifest.json", ENVELOPE: "object.json"}
PLAIN, ORDERED = "marginals:3,4,2,ways=2", "marginals:prefix5,2,prefix3,ways=2"
SETS = [(0, 1), (0, 2), (1, 2)]
LARGE = ("product", "blocks", "rows", "epochs")
"""Forms that half of the time are checked as if they were too large for their matrices."""
MOST_CELLS = form_files.MOST_CELLS


def tables(neighbours):
    queries = pml.workload(ORDERED)
    options = DesignOptions(max_steps=20, neighbours=neighbours)
    return solve_tables(queries, question(queries), 2.0, options)


def blocks():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    parts = [Strategy("a", np.tri(4)), Strategy("b", rng.standard_normal((5, 4)))]
    return BlockStrategy("blocks", 1, [basis, np.eye(2)], [[0, 1], [1, 0], [1, 1]], parts)


def weighted_products():
    designs = {0: np.vstack([np.eye(5), np.tri(5)[1::2]]) / 3, 2: np.eye(3) + 0.2}
    return WeightedTablesStrategy("products", (5, 2, 3), SETS, [0.5, 0.3, 0.2], designs)


def rows():
    few = [[0.1] * 8, [0, 0, 0, 0.4, 0.4, 0, 0, 0]]
    return IdentityAndRows("rows", np.linspace(0.5, 1, 8), few)


def product():
    factors = [Strategy("a", np.tri(5)), Strategy("b", np.eye(4) + 0.3)]
    return ProductStrategy("product", factors, weights=np.linspace(1, 2, 20))


def stream(**options):
    return lambda: pml.factorize("prefix:20", buffers=4, **options)


FORMS = {
    "tables": (lambda: tables("add-remove"), ORDERED, "add-remove"),
    "tables replace": (lambda: tables("replace"), ORDERED, "replace"),
    "marginals": (lambda: pml.factorize(PLAIN, p=3), PLAIN, "add-remove"),
    "marginals replace": (lambda: pml.factorize(PLAIN, neighbours="replace"), PLAIN, "replace"),
    "weighted": (
        lambda: WeightedTablesStrategy("weighted", (3, 4, 2), SETS, [0.5, 0.3, 0.2]),
        PLAIN,
        None,
    ),
    "weighted products": (weighted_products, ORDERED, None),
    "blocks": (blocks, "prefix:3*histogram:4*total:2+histogram:3*prefix:4*prefix:2", "add-remove"),
    "product": (product, "prefix:5*prefix:4", "add-remove"),
    "plain product": (lambda: pml.factorize("prefix:5*prefix:4", p=3), None, "add-remove"),
    "rows": (rows, "prefix:8", "add-remove"),
    "stream": (stream(), None, "add-remove"),
    "discounted": (lambda: pml.factorize("decay:20,0.9", buffers=4, p=3), None, "add-remove"),
    "min-sep": (stream(participation="3,min-sep=6"), None, "add-remove"),
    "every": (stream(participation="4,every=5"), None, "add-remove"),
    "epochs": (lambda: pml.factorize("prefix:20", participation="4,every=5"), None, "add-remove"),
}


@cache
def form(name):
    """The strategy or design of a form, made once."""
    make, queries, _ = FORMS[name]
    return make(), queries


def file_of_form(path, rng):
    """A file of a strategy that is not written out, with noise or without."""
    name = str(rng.choice(list(FORMS)))
    as_large(name, rng)
    strategy, queries = form(name)
    neighbours = FORMS[name][2] or str(rng.choice(["add-remove", "replace"]))
    largest, writer.WRITTEN_ENTRIES = writer.WRITTEN_ENTRIES, 10
    try:
        if isinstance(strategy, pml.Design):
            if rng.random() < 0.3:
                pml.write(path, strategy)
                return
            guarantee = random_guarantee(rng, neighbours, strategy.workload.shape[1])
            noisy = pml.mechanism(strategy, guarantee=guarantee)
            pml.write(path, strategy, mechanism=noisy)
        else:
            guarantee = random_guarantee(rng, neighbours, strategy.shape[1])
            pml.write(path, pml.mechanism(strategy, queries, guarantee=guarantee))
    finally:
        writer.WRITTEN_ENTRIES = largest
    return


def file_of_matrix(path, rng):
    """A strategy file of a random workload, exponent, relation, strategy and guarantee."""
    name = str(rng.choice(WORKLOADS))
    neighbours = str(rng.choice(["add-remove", "replace"]))
    p = float(rng.choice(EXPONENTS))
    queries = pml.workload(name)
    if rng.random() < 0.3:
        queries = rng.standard_normal((int(rng.integers(2, 9)), int(rng.integers(2, 7))))
    best = pml.factorize(queries, p=p, neighbours=neighbours)
    cells = queries.shape[1]
    guarantee = random_guarantee(rng, neighbours, cells)
    if rng.random() < 0.4:
        pml.write(path, best)
    elif rng.random() < 0.5:
        pml.write(path, best, mechanism=pml.mechanism(best, guarantee=guarantee))
    else:
        pml.write(path, pml.mechanism("identity", queries, guarantee=guarantee, p=p))
    return pml.workload(queries) if isinstance(queries, np.ndarray) else queries


def manifest(path, rng):
    """The manifest of a release of counts."""
    queries = pml.workload(str(rng.choice(["prefix:7", "histogram:5", PLAIN])))
    cells = queries.shape[1]
    guarantee = random_guarantee(rng, str(rng.choice(["add-remove", "replace"])), cells)
    currency = isinstance(guarantee, pml.ZCDP | pml.GaussianDP | pml.RenyiDP)
    noise = "gaussian" if currency else "auto"
    noisy = pml.mechanism("identity", queries, guarantee=guarantee, noise=noise)
    counts = rng.integers(0, 9, noisy.workload.shape[1])
    pml.release(noisy, counts).save(path.with_name("r.csv"))


def envelope(path, rng):
    """The certificate of the envelope of truncated Laplace noise."""
    prior = ",".join(f"{share:.4f}" for share in rng.dirichlet(np.ones(4)).round(4)[:3])
    prior += f",{1 - sum(map(float, prior.split(','))):.4f}"
    channel = f"laplace:4,scale={rng.uniform(0.5, 2):.3f},cells=6"
    words = [
        "envelope",
        channel,
        "--prior",
        prior,
        "--failure-probability",
        f"{rng.uniform(0.05, 0.4):.3f}",
    ]
    done = CliRunner().invoke(main_command, [*words, "--certificate", str(path)])
    assert done.exit_code == 0, done.output


MAKERS = {MATRIX: file_of_matrix, FORM: file_of_form, MANIFEST: manifest, ENVELOPE: envelope}


def random_guarantee(rng, neighbours, cells):
    """One of all kinds; PML where neighbours are replaced, of a public sample every other time."""
    epsilon, delta = float(rng.uniform(0.3, 1.2)), float(10 ** rng.uniform(-8, -3))
    alpha, order = float(rng.uniform(0.01, 0.03)), float(rng.uniform(1.5, 20))
    if rng.random() < 0.5:
        alpha = pml.envelope.sampled_alpha(
            rng.integers(20, 200, cells), float(rng.uniform(0.9, 0.999))
        )
        epsilon = min(epsilon, -0.7 * float(np.log(min(alpha))))
    kinds = [
        pml.PureDP(epsilon, neighbours),
        pml.ApproxDP(epsilon, delta, neighbours),
        pml.ZCDP(epsilon / 5, neighbours),
        pml.GaussianDP(epsilon, neighbours),
        pml.RenyiDP(order, epsilon, neighbours),
    ]
    if neighbours == "replace":
        kinds += [
            pml.PML(epsilon, alpha),
            pml.ApproxPML(epsilon, delta, alpha),
            pml.EnvelopePML(epsilon, delta, alpha),
        ]
    return kinds[rng.integers(len(kinds))]


def numbers(content):
    """The places of all numbers in a JSON object, each as the list or object and its key."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield content, key


def altered_number(content, rng):
    """Change a number of a JSON object in its place; what it is called."""
    places = list(numbers(content))
    holder, key = places[rng.integers(len(places))]
    value = holder[key]
    part = random_part(rng)
    holder[key] = value + 1 if isinstance(value, int) else value * (1 + part) if value else part
    return str(key)


def random_part(rng):
    return 10 ** rng.uniform(-6, 0) * rng.choice([-1, 1])


def altered_entry(arrays, rng):
    """Change an entry of an array in its place; the name of the array."""
    name = str(rng.choice(sorted(name for name, array in arrays.items() if array.size)))
    flat = arrays[name].reshape(-1)
    place = rng.integers(flat.size)
    if flat.dtype.kind == "f":
        flat[place] += random_part(rng) * (abs(flat[place]) or np.abs(flat).max() or 1.0)
    else:
        flat[place] += 1
    return name


class File:
    """A file that is altered: what is in it, and how it is written."""

    def __init__(self, path):
        self.path, self.arrays = path, None
        if path.suffix == ".json":
            self.content = json.loads(path.read_text())
        else:
            self.content, arrays = read_archive(path)
            self.arrays = {name: array.copy() for name, array in arrays.items()}

    def alter(self, rng):
        """Change one number; what it is called."""
        if self.arrays is None or rng.random() < 0.4:
            return altered_number(self.content, rng)
        return altered_entry(self.arrays, rng)

    def write(self, *, renew):
        """With the digest of the file that was, or one that fits."""
        content = self.content
        if self.arrays is None:
            if renew:
                content[KEY][OBJECT] = digest_of_object(content)
            self.path.write_text(json.dumps(content))
            return
        if renew:
            content[KEY] = digest_of(content, self.arrays)
        np.savez(self.path, header=np.array(json.dumps(content)), **self.arrays)


def as_large(name, rng):
    """Check the files of a form by its structure, or by its matrix."""
    form_files.MOST_CELLS = 1 if name in LARGE and rng.random() < 0.5 else MOST_CELLS


def passes(path, queries):
    """Whether all claims hold, or are not checked."""
    try:
        return not pml.verify(path, workload=queries).failures
    except pml.PmldesignError:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    failed, passed, forged, unchecked, kinds = [], [], Counter(), Counter(), Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.files):
            kind = str(rng.choice(list(SHARES), p=list(SHARES.values())))
            kinds[kind] += 1
            path = Path(folder) / NAMES[kind]
            queries = MAKERS[kind](path, rng)
            honest = pml.verify(path, workload=queries)
            unchecked.update(check.name for check in honest.unchecked)
            if honest.failures:
                failed.append(number)
                print(number, kind, honest.failures, flush=True)
            file = File(path)
            name = file.alter(rng)
            file.write(renew=False)
            if passes(path, queries):
                passed.append((number, kind, name))
            file.write(renew=True)
            if passes(path, queries):
                forged[name] += 1
    print(f"{arguments.files} honest files, {len(failed)} fail: {failed[:10]}; {dict(kinds)}")
    print(f"not checked: {dict(unchecked)}")
    print(f"{arguments.files} altered files, {len(passed)} pass: {passed[:10]}")
    print(f"the same with a digest that fits: {forged.total()} pass: {dict(forged)}")
    return 1 if failed or passed else 0


if __name__ == "__main__":
    raise SystemExit(main())
