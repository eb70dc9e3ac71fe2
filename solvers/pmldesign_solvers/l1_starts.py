"""Where the search for l1 strategies begins.

Extra rows over the ordered cells, beside the identity: for add-remove, overlapping bumps (a few
wide ones are what optimal rows for prefix sums and ranges look like, and their number matters more
than anything else); for distances, ramps that run from one end to the other. Then unstructured
rows, from which strategies without an identity part are found; and perturbations of the best so
far.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pmldesign_solvers.l1_objective import Blocks
from pmldesign_solvers.operators import Array

SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Numbers of bumps."""
UNSTRUCTURED_CELLS = 64
"""With more cells, n x n unstructured rows cost too much."""
KICKS = (0.03, 0.1, 0.3)
"""Sizes of the perturbations, relative to the row that varies most."""
NEGLIGIBLE = 1e-4
"""Rows that vary by less than this, relative to the one that varies most, are dropped."""

NamedStart = tuple[str, Blocks]


def bumps(cells: int, count: int) -> Array:
    """Triangles of height 0.8 that overlap by half, shape (count, cells)."""
    centres = (np.arange(count) + 0.5) * cells / count
    away = np.abs(np.arange(cells) + 0.5 - centres[:, None])
    return np.asarray(0.8 * np.maximum(0.0, 1 - away * count / (1.5 * cells)))


def identity_and_bumps(cells: int, rng: np.random.Generator) -> Iterator[NamedStart]:
    """The identity with 1, 2, 3 ... bumps, up to half as many as there are cells."""
    for count in SIZES:
        if count <= max(1, cells // 2):
            rows = bumps(cells, count)
            rows += 0.02 * rng.random(rows.shape)
            yield f"identity and {count} bumps", Blocks(np.ones(cells), rows)


def nested_bumps(cells: int, rng: np.random.Generator) -> Iterator[NamedStart]:
    """The identity with 2^k bumps on every scale down to about 8, 16 or 32 cells."""
    for finest in (8, 16, 32):
        depth = int(np.log2(max(1, cells / finest))) + 1
        rows = np.vstack([0.9 * bumps(cells, 2**level) for level in range(depth)])
        if depth > 1:
            rows += 0.02 * rng.random(rows.shape)
            yield f"identity and {len(rows)} nested bumps", Blocks(np.ones(cells), rows)


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
        yield f"identity and {count} ramps", Blocks(diagonal, rows)


def unstructured(cells: int, number: int, rng: np.random.Generator) -> NamedStart:
    """The number-th of an endless series of random rows, without and with the identity."""
    zero = np.zeros(cells)
    kind = number % 4
    if kind < 2:
        rows = rng.standard_normal(((kind + 1) * cells, cells))
        return f"{len(rows)} random rows", Blocks(zero, rows)
    extra = 2 * (kind - 1)
    rows = np.vstack(
        [
            np.eye(cells) + 0.1 * rng.standard_normal((cells, cells)),
            0.5 * rng.standard_normal((extra, cells)),
        ]
    )
    return f"identity and {extra} random rows", Blocks(zero, rows)


def perturbed(best: Blocks, number: int, rng: np.random.Generator, *, signed: bool) -> Blocks:
    """The number-th perturbation of the best so far, with one more row."""
    size = KICKS[number % len(KICKS)]
    spread = np.ptp(best.rows, axis=1)
    top = max(float(spread.max(initial=0.0)), float(best.diagonal.max()))
    kept = best.rows[spread > NEGLIGIBLE * top]
    rows = np.vstack([kept, np.zeros(kept.shape[1])])
    rows += 0.3 * size * top * rng.standard_normal(rows.shape)
    return Blocks(best.diagonal, rows if signed else np.maximum(rows, 0.0))
