"""Random schemas of people with numbers, persons, levels and invariants, and their releases."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import pmldesign as pml
from pmldesign.releases import as_schema, release

NOISES = ("laplace", "gaussian", "cube", "integers")
"""The last one is Laplace noise on whole measurements."""
SIZES = (2, 3, 4)
STRATEGIES = ("design", "identity", "workload")


@dataclass
class Case:
    """A schema, queries of its attributes, a guarantee and what else a release takes."""

    schema: dict[str, Any]
    queries: str
    guarantee: Any
    noise: str
    known: str | None
    strategy: str
    people: pl.DataFrame = field(repr=False)


def random_case(rng: np.random.Generator, noise: str) -> Case:
    """A case for a kind of noise; some are refused."""
    replaced = bool(rng.random() < 0.4) and noise != "integers"
    attributes = [_attribute(rng, f"a{i}") for i in range(int(rng.integers(1, 4)))]
    if rng.random() < 0.2:
        attributes[0] = _places(rng)
    schema: dict[str, Any] = {"attributes": attributes}
    persons = rng.random() < 0.5
    if persons:
        schema |= _persons(rng, attributes)
    guarantee = _guarantee(rng, noise, attributes, replaced=replaced, persons=persons)
    public = guarantee.neighbours == "replace" and not guarantee.pml and rng.random() < 0.4
    plain = [a["name"] for a in attributes if "keys" in a and "levels" not in a]
    known = str(rng.choice(plain)) if public and plain else None
    queries = _queries(rng, attributes)
    people = _people(rng, schema, replaced=replaced)
    return Case(schema, queries, guarantee, noise, known, str(rng.choice(STRATEGIES)), people)


def released(case: Case) -> pml.Release:
    """Its release; InvalidInputError if the parts do not fit together."""
    schema = as_schema(case.schema)
    queries = pml.workload(case.queries, schema=schema)
    whole = case.noise == "integers"
    options = {"p": 2.0} if case.known is None else {"p": 2.0, "known": case.known}
    if case.known is not None:
        options["known"] = pml.workload(case.known, schema=schema)
    strategy: Any = case.strategy
    if strategy == "design":
        relation = {} if case.known else {"neighbours": case.guarantee.neighbours}
        strategy = pml.factorize(queries, **options, **relation)
    noisy = pml.mechanism(
        strategy,
        queries,
        guarantee=case.guarantee,
        noise="integer-laplace" if whole else case.noise,
        **options,
    )
    return release(noisy, case.people, schema=schema)


def _attribute(rng: np.random.Generator, name: str) -> dict[str, Any]:
    kind, size = rng.integers(4), int(rng.choice(SIZES))
    if kind == 0:
        return {"name": name, "keys": [f"k{i}" for i in range(size)]}
    if kind == 1:
        return {"name": name, "keys": list(range(size)), "ordered": True}
    if kind == 2:
        return {"name": name, "cuts": [5 * i for i in range(size + 1)]}
    unit = float(rng.choice([0.001, 0.5, 1, 3]))
    high = unit * int(rng.choice([1, 6, 50, 1000]))
    entry = {"name": name, "low": 0, "high": high, "unit": unit}
    inner = rng.random()
    if high / unit >= 6 and inner < 0.5:
        entry["knots" if inner < 0.25 else "cuts"] = [unit * 2]
    return entry


def _places(rng: np.random.Generator) -> dict[str, Any]:
    states = {
        f"s{i}": [f"c{i}{j}" for j in range(int(rng.integers(1, 4)))]
        for i in range(int(rng.integers(2, 4)))
    }
    return {"name": "place", "levels": ["state", "county"], "keys": states}


def _persons(rng: np.random.Generator, attributes: list[dict[str, Any]]) -> dict[str, Any]:
    more: dict[str, Any] = {"person": "id", "rows_per_person": int(rng.integers(2, 4))}
    keyed = [a["name"] for a in attributes if "keys" in a and "levels" not in a]
    choice = rng.random()
    if choice < 0.3:
        more["one_per"] = "cell"
    elif choice < 0.6 and keyed:
        more["one_per"] = str(rng.choice(keyed))
    return more


def _guarantee(
    rng: np.random.Generator,
    noise: str,
    attributes: list[dict[str, Any]],
    *,
    replaced: bool,
    persons: bool,
) -> pml.Guarantee:
    relation, epsilon = "replace" if replaced else "add-remove", float(rng.uniform(0.3, 3))
    delta, numbers = float(10 ** rng.uniform(-9, -4)), any("low" in a for a in attributes)
    pml_fits = replaced and not numbers and not persons
    if noise == "gaussian":
        kinds = [
            pml.ApproxDP(epsilon, delta, relation),
            pml.ZCDP(epsilon, relation),
            pml.GaussianDP(epsilon, relation),
            pml.RenyiDP(3.0, epsilon, relation),
        ]
        if pml_fits:
            kinds += [pml.ApproxPML(epsilon, delta, 0.01), pml.EnvelopePML(epsilon, delta, 0.01)]
    else:
        kinds = [pml.PureDP(epsilon, relation)]
        if pml_fits and noise == "laplace":
            kinds.append(pml.PML(epsilon, 0.01))
    return kinds[int(rng.integers(len(kinds)))]


def _queries(rng: np.random.Generator, attributes: list[dict[str, Any]]) -> str:
    products = []
    for _ in range(int(rng.integers(1, 4))):
        count = int(rng.integers(0, len(attributes) + 1))
        chosen = sorted(rng.choice(len(attributes), count, replace=False))
        products.append("*".join(_factor(rng, attributes[i]) for i in chosen) or "total")
    return " + ".join(dict.fromkeys(products))


def _factor(rng: np.random.Generator, attribute: dict[str, Any]) -> str:
    name = attribute["name"]
    if "levels" in attribute:
        return str(rng.choice(["state", "county"]))
    if "low" in attribute:
        kinds = ["sum", "mean,20", "sum2"] + ([""] if "cuts" in attribute else [])
    elif "cuts" in attribute or attribute.get("ordered"):
        kinds = ["", "prefix", "all-range"]
    else:
        kinds = ["", "share"]
    kind = str(rng.choice(kinds))
    return f"{name}:{kind}" if kind else name


def _people(rng: np.random.Generator, schema: dict[str, Any], *, replaced: bool) -> pl.DataFrame:
    times = schema.get("rows_per_person", 1)
    count = 12 if replaced else 10
    columns: dict[str, Any] = {}
    if "person" in schema:
        columns["id"] = [i for i in range(count) for _ in range(times)]
    rows = count * times if "person" in schema else count
    for entry in schema["attributes"]:
        if "levels" in entry:
            places = [place for group in entry["keys"].values() for place in group]
            columns["county"] = rng.choice(places, rows).tolist()
        elif "keys" in entry:
            name, one = entry["name"], schema.get("one_per") == entry["name"]
            keys = entry["keys"]
            every = [keys[i % len(keys)] for i in range(rows)] if one else rng.choice(keys, rows)
            columns[name] = list(every)
        elif "low" in entry:
            columns[entry["name"]] = rng.uniform(0, entry["high"], rows).round(3).tolist()
        else:
            columns[entry["name"]] = rng.integers(0, entry["cuts"][-1], rows).tolist()
    return pl.DataFrame(columns)


def verified(published: pml.Release, case: Case, folder: Path) -> list[pml.Verification]:
    """What is said about the table and the measurements of a release."""
    published.save(folder / "t.csv")
    names = ["t.csv"]
    assert published.measurements is not None
    try:
        published.measurements.save(folder / "m.npz")
        names.append("m.npz")
    except pml.InvalidInputError:  # too large
        pass
    return [pml.verify(folder / name, schema=case.schema) for name in names]
