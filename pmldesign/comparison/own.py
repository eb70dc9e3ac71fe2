"""Mechanisms of the caller as rows of a comparison.

M(x) = L (R x + z), L R = A, with uncorrelated noise z of one variance on the measurements. The
caller states which variance a guarantee requires at a sensitivity; errors follow from variances, at
p = 2 and p = inf only. That this noise satisfies the guarantee is the caller's claim: nothing here
checks it, and no release draws it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmldesign.arguments import finite_matrix, instance, positive, shown
from pmldesign.designs.questions import Question
from pmldesign.designs.rows import OWN, Row
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization, answer
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import as_strategy
from pmldesign.workloads.display import Displayed, Facts
from pmldesign_solvers.operators.operator import Array

NOISES = {"l1": Noise.LAPLACE, "l2": Noise.GAUSSIAN, "linf": Noise.CUBE}
"""The noise whose sensitivity is in this norm."""
EXACT = 1e-9
"""Largest part of A, entry by entry, that L R may differ from it."""


@dataclass(frozen=True, eq=False, repr=False)
class OwnMechanism(Displayed):
    """A mechanism of yours, for `compare`.

    Args:
        name: of its row.
        strategy: R, whatever `mechanism` takes: "identity", a matrix of shape (r, n), a design.
        variance: of the noise on each measurement, as a function of the guarantee (None where the
            comparison has none) and of the sensitivity. At the sensitivity 1 without a guarantee
            Laplace noise has 2, Gaussian noise 1.
        norm: of the sensitivity: "l1", "l2" or "linf".
        reconstruction: L, shape (m, r); None for A R^+, the least squares one.

    Raises:
        InvalidInputError: an argument of another kind.
    """

    name: str
    strategy: Any
    variance: Callable[[Guarantee | None, float], float]
    norm: Norm = "l1"
    reconstruction: Any = None

    def __post_init__(self) -> None:
        instance("name", self.name, str, "a text")
        instance("variance", self.variance, Callable, "a function of guarantee and sensitivity")
        if not isinstance(self.norm, str) or self.norm not in NOISES:
            raise InvalidInputError(
                f"norm must be one of {', '.join(NOISES)}, got {shown(self.norm)}"
            )

    def _display(self) -> tuple[str, Facts]:
        title = f"OwnMechanism {self.name!r}: noise of {self.norm} sensitivity"
        return title, [("strategy", shown(self.strategy))]

    def row(self, question: Question) -> Row:
        """Its row at p = 2 or inf.

        Raises:
            InvalidInputError: another p, several participations, a strategy or reconstruction that
                does not answer the workload, or a variance that is not positive.
        """
        p = question.p
        if question.options.schema is not None:
            raise InvalidInputError(f"{self.name}: a mechanism of your own has no participation")
        if p not in (2, math.inf):
            raise InvalidInputError(
                f"{self.name}: errors of mechanisms of your own follow from variances, at p = 2 and"
                f" inf only; got p = {p:g}"
            )
        workload = question.workload
        factorization = answer(as_strategy(self.strategy, workload), workload, question.relation)
        sensitivity = factorization.sensitivity(NOISES[self.norm])
        variance = self.variance(question.guarantee, sensitivity)
        deviations = math.sqrt(positive(f"variance of {self.name}", variance)) * self._deviations(
            factorization
        )
        size, largest = float(np.linalg.norm(deviations)), float(deviations.max())
        return Row(
            strategy=self.name,
            p=p,
            noise=OWN,
            sensitivity=sensitivity,
            scale=math.sqrt(variance),
            error=size if p == 2 else largest,
            rmse=size / math.sqrt(len(deviations)),
            max_std=largest,
            ratio=1.0,
            workload=factorization.workload.name,
            guarantee=question.guarantee,
            norm=factorization.norm(p),
        )

    def _deviations(self, factorization: Factorization) -> Array:
        """Standard deviations of the answers per unit of noise: norms of the rows of L."""
        if self.reconstruction is None:
            return factorization.deviations
        name = f"reconstruction of {self.name}"
        given = finite_matrix(name, self.reconstruction)
        measured, asked = factorization.strategy.matrix, factorization.workload.to_dense()
        if given.shape != (len(asked), len(measured)):
            raise InvalidInputError(
                f"{name} must have shape {(len(asked), len(measured))}, got {given.shape}"
            )
        off = np.abs(given @ measured - asked).max()
        if off > EXACT * max(1.0, float(np.abs(asked).max())):
            raise InvalidInputError(
                f"{name} times the strategy must be the workload; an entry is {off:.3g} off"
            )
        return np.asarray(np.linalg.norm(given, axis=1))
