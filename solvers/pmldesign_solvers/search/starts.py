"""Where the search for l1 strategies begins.

Extra rows over the ordered cells, beside the identity: tents for add-remove (`tents`); for
distances, ramps that run from one end to the other. Then unstructured rows, from which strategies
without an identity part are found; and perturbations of the best so far. Here are the
tents in levels, and the numbers of them that are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.search.objectives import Stacked

WHOLE = 300
"""Up to so many cells every cell is a block of its own; a step takes less than 2 ms."""
SMALL_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Rows of the finest level where there are few cells, up to half as many as cells."""
HALVED = 2000
"""From so many cells on the third level matters: 206 339 for 16384 cells and all ranges, 217 261
without."""
REACH, FREE_ROWS = 1.5, 4
"""Supports reach so many spacings to either side of a knot; levels of few rows are free everywhere.
Wider supports gained less than 1e-4 on 1024 cells, and take time in proportion."""
UNSTRUCTURED_CELLS = 64
"""With more cells, n x n unstructured rows cost too much."""
KICKS = (0.03, 0.1, 0.3)
"""Sizes of the perturbations, relative to the row that varies most."""
NEGLIGIBLE_ROW = 1e-4
"""Rows that vary by less than this, relative to the one that varies most, are dropped."""

NamedStart = tuple[str, Stacked]


def identity_and_ramps(cells: int, rng: np.random.Generator) -> Iterator[NamedStart]:
    """The identity with a few ramps; in full, with noise, where there are few enough cells."""
    place = np.linspace(-1.0, 1.0, cells)
    for count in (1, 2, 4, 8, 16):
        if count > cells:
            return
        centres, widths = rng.uniform(-1, 1, (count, 1)), rng.uniform(0.2, 2, (count, 1))
        rows = 0.5 * np.clip((place - centres) / widths, -1, 1)
        rows += 0.02 * rng.standard_normal(rows.shape)
        diagonal = np.ones(cells)
        if cells <= UNSTRUCTURED_CELLS:
            full = np.eye(cells) + 0.1 * rng.standard_normal((cells, cells))
            diagonal, rows = np.zeros(cells), np.vstack([rows, full])
        yield f"identity and {count} ramps", Stacked(diagonal, rows)


def unstructured(cells: int, number: int, rng: np.random.Generator) -> NamedStart:
    """The number-th of an endless series of random rows, without and with the identity."""
    zero = np.zeros(cells)
    kind = number % 4
    if kind < 2:
        rows = rng.standard_normal(((kind + 1) * cells, cells))
        return f"{len(rows)} random rows", Stacked(zero, rows)
    extra = 2 * (kind - 1)
    rows = np.vstack(
        [
            np.eye(cells) + 0.1 * rng.standard_normal((cells, cells)),
            0.5 * rng.standard_normal((extra, cells)),
        ]
    )
    return f"identity and {extra} random rows", Stacked(zero, rows)


def perturbed(best: Stacked, number: int, rng: np.random.Generator, *, signed: bool) -> Stacked:
    """The number-th perturbation of the best so far, with one more row."""
    size = KICKS[number % len(KICKS)]
    spread = np.ptp(best.rows, axis=1)
    top = max(float(spread.max(initial=0.0)), float(best.diagonal.max())) or 1.0
    kept = best.rows[spread > NEGLIGIBLE_ROW * top]
    rows = np.vstack([kept, np.zeros(kept.shape[1])])
    rows += 0.3 * size * top * rng.standard_normal(rows.shape)
    return Stacked(best.diagonal, rows if signed else np.maximum(rows, 0.0))


def systems_of_levels(cells: int, most: float = math.inf) -> list[tuple[int, ...]]:
    """Numbers of rows of the levels that are compared, finest level first; likely ones first.

    Args:
        cells: how many.
        most: rows of a level; all together are at most a quarter more.
    """
    wide = cells > HALVED
    spacings = (20,) if wide else (15, 18, 22)
    finest = {max(1, int(min(round(cells / spacing), most))) for spacing in spacings}
    if cells <= WHOLE:
        finest |= {count for count in SMALL_COUNTS if count <= max(1, cells // 2)}
    systems: set[tuple[int, ...]] = {(count,) for count in finest}
    third = max(1, round(cells / 4000))
    for count in finest:
        for spacing in (400, 300, 200) if wide else (500, 340, 250, 160):
            second = max(1, round(cells / spacing))
            if second < count:
                systems.add((count, second))
            if 6 * third <= second < count:
                systems.add((count, second, third))

    def unlikely(system: tuple[int, ...]) -> float:
        """How far from what has been best for running sums: 18 and 340 cells apart."""
        second = abs(math.log(system[1] * 340 / cells)) if len(system) > 1 else 1.0
        return abs(math.log(system[0] * 18 / cells)) + second

    fewer = [system for system in systems if sum(system) <= max(1.25 * most, min(finest))]
    return sorted(sorted(fewer), key=unlikely)


def tents_in_levels(edges: Indices, levels: Sequence[int]) -> tuple[Indices, Indices, Array]:
    """Supports of the rows of all levels, and Theta on them, row by row."""
    n, m = int(edges[-1]), len(edges) - 1
    centres = (edges[:-1] + edges[1:]) / 2
    lower, upper, heights = [], [], []
    for count in levels:
        spacing = n / count
        for row in range(count):
            knot = (row + 0.5) * spacing
            tent = np.maximum(0.0, 1 - np.abs(centres - knot) / spacing)
            if row == 0:
                tent[centres < knot] = 1.0
            if row == count - 1:
                tent[centres > knot] = 1.0
            start, stop = 0, m
            if count > FREE_ROWS:
                start = int(np.searchsorted(edges, knot - REACH * spacing, "right")) - 1
                stop = int(np.searchsorted(edges, knot + REACH * spacing))
                positive = np.flatnonzero(tent)
                start = max(0, min(start, int(positive[0])))
                stop = min(m, max(stop, int(positive[-1]) + 1))
            lower.append(start)
            upper.append(stop)
            heights.append(tent[start:stop])
    return np.array(lower), np.array(upper), np.concatenate(heights)
