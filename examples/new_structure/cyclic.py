r"""A new structure in four edits: windows around the clock.

Query i is the sum of w of n cells in a circle, from cell i on (the eight hours from every full hour
on). A is circulant, A = F diag(a) F* with the discrete Fourier transform F, and nothing changes
when all cells move on by one: u = n^(-1/q), w = 1/n are the weights of the best lower bound, and

    R = F diag(|a| / s)^(1/2) F*,      s = sum_k |a_k| / n,      gamma_(p)(A) = n^(1/p) s,

whose columns have length 1 and whose answers all have the variance s^2: both bounds meet at every
p. A column of R is its kernel, in an order of its own.
"""

from __future__ import annotations

import time
from functools import cached_property

import numpy as np
from scipy import linalg

from pmldesign.designs import dispatch
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.files import structures
from pmldesign.files.parts import plain
from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.outward import raised
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.structured import StructuredStrategy
from pmldesign.verifier.forms import form as verified
from pmldesign.verifier.forms import registry
from pmldesign.workloads import NamedWorkload, Workload, named
from pmldesign_solvers.certificate import Certificate
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.operator import Array

CUTOFF = 1e-10
"""Part of the largest frequency below which one is rounding."""
ROUNDING = 1e-12
"""Of both bounds: a transform is off by a few units for each doubling of n."""


# 1. Its facts: what is asked, and what is measured.


class CyclicWorkload(Workload):
    """The sum of `width` cells in a circle, from every cell on."""

    binary = True

    def __init__(self, cells: int, width: int) -> None:
        if not 1 <= width <= cells:
            raise InvalidInputError(f"a window has from 1 to {cells} cells, got {width}")
        self.name, self.width, self._shape = f"cyclic:{cells},{width}", width, (cells, cells)

    @property
    def sizes_of_frequencies(self) -> Array:
        """|a_k|, shape (n,)."""
        sizes = np.abs(np.fft.fft(np.arange(self.shape[1]) < self.width))
        return np.where(sizes > CUTOFF * sizes[0], sizes, 0.0)

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        sums = np.cumsum(np.concatenate([np.zeros_like(x[:1]), x, x[: self.width]]), axis=0)
        return np.asarray(sums[self.width :][: len(x)] - sums[: len(x)])

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""
        return self.matvec(np.roll(y, self.width - 1, axis=0))


class CyclicStrategy(StructuredStrategy):
    """R x is the circular convolution of the data with a kernel."""

    def __init__(self, name: str, kernel: Array) -> None:
        self.name, self.kernel = name, read_only(np.array(kernel, dtype=np.float64))
        self.shape = self.kernel.size, self.kernel.size
        self._frequencies = np.fft.fft(self.kernel)

    @cached_property
    def matrix(self) -> Array:
        """R, shape (n, n)."""
        return read_only(linalg.circulant(self.kernel))

    def measure(self, x: Array) -> Array:
        """R x, shape (n,) or (n, c)."""
        return self._filtered(x, self._frequencies)

    def estimate(self, measurements: Array) -> Array:
        """R^+ y, shape (n,) or (n, c)."""
        sizes = np.abs(self._frequencies)
        told = sizes > CUTOFF * sizes.max()
        return self._filtered(
            measurements, np.where(told, 1 / np.where(told, self._frequencies, 1), 0)
        )

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): all alike for windows around the clock."""
        if not isinstance(workload, CyclicWorkload) or workload.shape[1] != self.cells:
            return super().variances(workload)
        self.require_answers(workload)
        asked = workload.sizes_of_frequencies
        kept = asked > 0
        variance = float((asked[kept] ** 2 / np.abs(self._frequencies[kept]) ** 2).sum())
        return np.full(self.cells, variance / self.cells)

    def scaled(self, factor: float) -> CyclicStrategy:
        """R times a positive number."""
        return CyclicStrategy(self.name, self.kernel * factor)

    def _longest(self, norm: Norm) -> float:
        order = 1 if norm == "l1" else 2
        return raised(float(np.linalg.norm(self.kernel, order)), self.cells + 4)

    @staticmethod
    def _filtered(x: Array, frequencies: Array) -> Array:
        columns = np.fft.fft(x, axis=0).T * frequencies
        return np.asarray(np.fft.ifft(columns.T, axis=0).real)


def cyclic_design(workload: CyclicWorkload, p: float, options: DesignOptions) -> Design:
    """The best strategy, and both bounds."""
    begin, n = time.perf_counter(), workload.shape[1]
    sizes = workload.sizes_of_frequencies
    spread = float(sizes.sum()) / n
    value = spread * n ** (1 / p)
    u = np.full(n, n ** (2 / p - 1))
    return Design(
        workload=workload,
        p=p,
        neighbours=options.neighbours,
        strategy=CyclicStrategy("design", np.fft.ifft(np.sqrt(sizes / spread)).real).normalised(),
        certificate=Certificate(value * (1 - ROUNDING), value * (1 + ROUNDING)),
        dual_factors=((u, np.full(n, 1 / n)),),
        status=Status.OPTIMAL,
        steps=0,
        eigendecompositions=0,
        seconds=time.perf_counter() - begin,
    )


def register() -> None:
    """Make the structure known."""
    # 2. Its names: of the workload, and of the arrays of the strategy in a file.
    named.NAMES.append(
        NamedWorkload(
            "cyclic", ("N", "W"), "sums of W of N cells in a circle", "cyclic:24,8", CyclicWorkload
        )
    )
    structures.FORMS.append(structures.Form("cyclic", CyclicStrategy, (plain("kernel"),)))
    # 3. Its solver, before those for any matrix.
    dispatch.ROUTES.insert(
        0,
        dispatch.Route(
            "windows around the clock",
            lambda workload, options: isinstance(workload, CyclicWorkload) and not options.replace,
            cyclic_design,
        ),
    )
    # 4. What verification says it is, from the definition alone.
    registry.FORMS["cyclic"] = verified.Form(
        "a circulant matrix",
        {"kernel": verified.VECTOR},
        lambda arrays: int(arrays["kernel"].size),
        lambda arrays: [linalg.circulant(arrays["kernel"])],
    )
