"""From 5,000 invented people to a published table, and a picture of estimates and intervals.

    python examples/release/run.py [FOLDER]

writes people.csv, schema.json, tables.csv with its manifest, and intervals.png. The people are
invented, so the picture may show their true counts as well; with real data nobody may.
"""

from __future__ import annotations

import csv
import itertools
import json
import random
import sys
from collections import Counter
from pathlib import Path

SCHEMA = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 18, 35, 50, 65, 120]},
        {"name": "region", "keys": ["north", "east", "south", "west"]},
    ],
    "outside": "refuse",
    "rows_per_person": 1,
}
QUERIES = "sex*age + region"


def people(number=5000, seed=1):
    """Rows of sex, age and region."""
    draw = random.Random(seed)
    for _ in range(number):
        age = int(draw.triangular(0, 100, 35))
        region = draw.choices(SCHEMA["attributes"][2]["keys"], [4, 3, 2, 1])[0]
        yield draw.choice("FM"), age, region


def write_inputs(folder):
    with (folder / "people.csv").open("w", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["sex", "age", "region"])
        writer.writerows(people())
    (folder / "schema.json").write_text(json.dumps(SCHEMA, indent=2) + "\n")


def publish(folder):
    import pmldesign as pml

    schema = folder / "schema.json"
    queries = pml.workload(QUERIES, schema=schema)
    best = pml.optimize(queries, guarantee=pml.ApproxDP(0.1, 1e-6), noise="gaussian").best
    found = best.release(folder / "people.csv", schema=schema)
    found.save(folder / "tables.csv")
    return found


def picture(found, path):
    from matplotlib.figure import Figure

    columns = found.table.columns()
    labels = [
        " ".join(part for part in row if part != "*")
        for row in zip(columns["sex"], columns["age"], columns["region"], strict=True)
    ]
    cuts = SCHEMA["attributes"][1]["cuts"]
    bins = [f"[{low}, {high})" for low, high in itertools.pairwise(cuts)]
    truth = Counter()
    for sex, age, region in people():
        label = next(text for text, high in zip(bins, cuts[1:], strict=True) if age < high)
        truth.update([f"{sex} {label}", region])
    half = [upper - x for upper, x in zip(columns["upper"], columns["estimate"], strict=True)]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    rows = range(len(labels))
    axes.errorbar(columns["estimate"], rows, xerr=half, fmt="o", capsize=3, label="published, 95 %")
    axes.plot([truth[label] for label in labels], rows, "x", label="true (invented people)")
    axes.set_yticks(rows, labels)
    axes.invert_yaxis()
    axes.set_xlabel("people")
    axes.legend()
    figure.savefig(path, dpi=120)


def main(folder):
    write_inputs(folder)
    picture(publish(folder), folder / "intervals.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
