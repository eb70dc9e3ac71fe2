"""The results of solvers and searches: a strategy, of least norm or for noise and a guarantee."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pmldesign.designs.options import DesignOptions
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.factorization import answer, public_for
from pmldesign.mechanisms import Mechanism, mechanism
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import at_least, at_most, shortest
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.display import Displayed, Drawn, Facts
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Outcome, Status
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.search.solution import Start
from pmldesign_solvers.structure import kronecker

if TYPE_CHECKING:
    from pmldesign.privacy.guarantees import Guarantee
    from pmldesign.streams import GridNoise, Stream

SUM_ROUNDING = 1e-8
"""Relative, upwards, of all sums in the value of a strategy that is evaluated again."""
WIDEST_GAP = 0.1
"""Of bounds that need not meet, if no gap is asked for: unions take up to 3%, regions up to 7%."""
MOST_SHARES = 10**5
"""Queries up to which the shares of parts are computed, from a number for each."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Design(Drawn, Displayed):
    """The best strategy that a solver found for a workload, and how good it is.

    Attributes:
        workload: the queries that it answers.
        p: of the l_p^p error, in [2, inf].
        neighbours: the relation for which the sensitivity is defined.
        strategy: R, scaled to l2 sensitivity 1.
        certificate: both bounds on gamma_(p)(A); the strategy attains the upper one.
        dual_factors: the weights of the lower bound, u and w for each factor of a product, one pair
            for any other workload; see `dual_u`, `dual_w`.
        status: why the solver stopped.
        steps: iterations of the solver.
        eigendecompositions: that it took.
        seconds: that it took.
        dual_steps: for several participations the steps of the patterns that the blocks of `dual_w`
            are about, shape (N, k), those from n on to be left out; None for other weights.
        forms: the sources of both bounds, if a search had several forms; "" otherwise.
        optimum: a certified upper bound on gamma_(p)(A) below that of the strategy, from a matrix
            that is not returned; None without one.
    """

    workload: Workload
    p: float
    neighbours: Neighbours
    strategy: Strategy
    certificate: Certificate
    dual_factors: tuple[tuple[Array, Array], ...]
    status: Status
    steps: int
    eigendecompositions: int
    seconds: float
    forms: str = ""
    optimum: float | None = None
    dual_steps: Indices | None = None

    def _display(self) -> tuple[str, Facts]:
        lower, upper = at_most(self.certificate.lower), at_least(self.certificate.upper)
        norm = f"gamma_({shortest(self.p)}) in [{lower}, {upper}]"
        title = f"Design for {self.workload.name!r}: {norm}"
        return title, [
            ("neighbours", self.neighbours.value),
            ("gap", f"{self.certificate.gap:.1e}"),
            ("status", self.status.value),
        ]

    def join(self, other: Design, options: DesignOptions) -> Design:
        """Two designs for one question: the better strategy, and the better bound of either side.

        The weights are those that prove the lower bound, no matter which method found them.
        """
        best, rest = sorted((self, other), key=lambda design: design.certificate.upper)
        proof = max((best, rest), key=lambda design: design.certificate.lower)
        optimum = min((one.optimum for one in (self, other) if one.optimum), default=None)
        joined = replace(
            best,
            dual_factors=proof.dual_factors,
            dual_steps=proof.dual_steps,
            optimum=optimum if optimum and optimum < best.certificate.upper else None,
            steps=self.steps + other.steps,
            eigendecompositions=self.eigendecompositions + other.eigendecompositions,
            seconds=self.seconds + other.seconds,
        )
        certificate = best.certificate.join(rest.certificate)
        return evaluated(joined, best.strategy, certificate, options)

    @property
    def dual_u(self) -> Array:
        """Weights of the queries in the lower bound, shape (m,), norm(u)_q = 1, q = p/(p-2).

        One for each marginal where the workload is made of marginals. Where the strategy is one for
        tables, one for each table and then those of the queries on each ordered attribute
        (`pmldesign_solvers.tables.query_weights`). Those of a union of
        products beyond dense size may prove a little less than `certificate.lower`, which may come
        from the norms of its parts.

        Raises:
            InvalidInputError: a product with too many queries for a vector.
        """
        check_entries("dual_u", (math.prod(u.size for u, _ in self.dual_factors), 1))
        return _outer([u for u, _ in self.dual_factors])

    @property
    def dual_w(self) -> Array:
        """Weights of the cells in the lower bound, shape (n,), sum 1.

        A single 1 for marginals, whose cells weigh the same; of pairs of cells by the attributes
        in which they differ (`PairsPoint.rho` of the solvers). For tables those of the values of
        each ordered attribute, one attribute after the other. For replace neighbours a symmetric
        matrix of weights of pairs of cells; of very many cells, of those that differ, in the order
        in which they come first. For fixed epochs the blocks W_c, shape (b, m, m), for
        other participations those of `dual_steps`, shape (N, k, k).
        """
        return _outer([w for _, w in self.dual_factors])

    @property
    def budget_shares(self) -> dict[str, float] | None:
        """The budget allocation: the share of each part of a union, or each table; sum 1.

        If the parts were measured apart, with the shares s of rho or of mu^2, the best shares
        would make s_k the part's share of the sum of (u_i v_i), v the variances and u their
        weights in the norm, v^(p/2 - 1) or dual_u at p = inf. These shares are returned; if the
        parts share measurements they show whose errors the measurements are for. None for a single
        part, more than MOST_SHARES queries, or at p = inf if the weights are not of single queries.
        """
        names, sizes = zip(*self.workload.part_rows, strict=True)
        if len(names) < 2 or self.workload.shape[0] > MOST_SHARES:
            return None
        factorization = answer(self.strategy, self.workload, self.neighbours)
        spreads = factorization.variances / factorization.variances.max()
        if math.isinf(self.p):
            weights = self.dual_u
            if len(weights) == len(sizes):
                weights = np.repeat(weights, sizes)  # one for each part
            if weights.shape != spreads.shape:
                return None
            values = weights * spreads
        else:
            values = spreads ** (self.p / 2)
        sums = np.add.reduceat(values, np.cumsum([0, *sizes[:-1]])) / values.sum()
        shares: dict[str, float] = {}
        for name, share in zip(names, sums.tolist(), strict=True):
            shares[name] = shares.get(name, 0.0) + share
        return shares

    def reconstruction(self) -> Array:
        """L = A R^+, shape (m, r): answers are L (R x + noise)."""
        public = public_for(self.workload, self.neighbours)
        return self.strategy.reconstruction(given_invariants(self.workload, public))

    def require_optimal(self, *, gap_asked: bool = True) -> Design:
        """The design itself.

        Args:
            gap_asked: whether the caller asked for a gap. If not, bounds that need not meet may be
                up to WIDEST_GAP apart.

        Raises:
            NotConvergedError: the solver stopped before the requested gap.
        """
        proved = self.status is Status.STRUCTURED and self.certificate.gap <= WIDEST_GAP
        if self.status not in (Status.OPTIMAL, Status.SEARCHED) and (gap_asked or not proved):
            remedy = "allow more steps or time, or a wider gap"
            if self.status is Status.BUFFERS:
                remedy = "take more buffers, or a wider gap"
            if self.status is Status.STRUCTURED:
                remedy = "allow a wider gap"
            raise NotConvergedError(
                f"the gap is {self.certificate.gap:.1e}: {self.status.value}; {remedy}"
            )
        return self

    def stream(
        self, *, guarantee: Guarantee | None = None, noise: GridNoise | None = None
    ) -> Stream:
        """The online strategy, with the Gaussian noise that a guarantee requires.

        Args:
            guarantee: the guarantee to be met.
            noise: the source of the noise, as for `Mechanism.stream`.

        Raises:
            InvalidInputError: no guarantee, or as `Mechanism.stream`.
        """
        if guarantee is None:
            raise InvalidInputError(
                "a stream needs a guarantee, which says how much noise it has; give"
                " guarantee=pml.ApproxDP(1, 1e-6), or rho, mu or Renyi privacy"
            )
        return mechanism(self, guarantee=guarantee, noise="gaussian").stream(noise=noise)


def _outer(factors: Sequence[Array]) -> Array:
    return factors[0] if len(factors) == 1 else kronecker.outer(factors)


def as_design(
    workload: Workload, p: float, options: DesignOptions, strategy: Strategy, solution: Outcome
) -> Design:
    """The result of a solver, as the design for a workload."""
    return Design(
        workload=workload,
        p=p,
        neighbours=options.neighbours,
        strategy=strategy,
        certificate=solution.certificate,
        dual_factors=((solution.dual_u, solution.dual_w),),
        status=solution.status,
        steps=solution.steps,
        eigendecompositions=solution.eigendecompositions,
        seconds=solution.seconds,
    )


def evaluated(
    design: Design, strategy: Strategy, certificate: Certificate, options: DesignOptions
) -> Design:
    """A design with its strategy and the bounds that hold for the neighbours that are asked for.

    Bounds that met in the search for it need not meet.
    """
    status = design.status
    if certificate.gap <= options.rel_gap and status is not Status.INTERRUPTED:
        status = Status.OPTIMAL
    elif status in (Status.OPTIMAL, Status.STALLED):
        status = Status.STRUCTURED
    return replace(
        design,
        neighbours=options.neighbours,
        strategy=strategy,
        certificate=certificate,
        status=status,
    )


@contextmanager
def as_invalid_input(workload: Workload) -> Iterator[None]:
    """Report a refusal by a solver as an error of the workload."""
    try:
        yield
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"workload {workload.name!r}: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """The best mechanism that a search found, and how the search went.

    Attributes:
        mechanism: a strategy with its exactly calibrated noise.
        status: why the search stopped.
        starts: every start and what became of it.
        seconds: that the search took.
        before: the start with its noise, of a search from one.
    """

    mechanism: Mechanism
    status: Status
    starts: tuple[Start, ...]
    seconds: float
    before: Mechanism | None = None

    @property
    def settled(self) -> int:
        """How many starts were followed to a point from which no small step gains."""
        return sum(start.settled for start in self.starts)
