"""What is asked of a solver, and what it gives back (`solving`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pmldesign.strategies import Strategy
from pmldesign_solvers.certificate import Certificate, Kind
from pmldesign_solvers.operators import Array
from pmldesign_solvers.solution import Callback, Status

Method = Literal["scaling", "primal", "dual"]
METHODS: tuple[Method, ...] = ("scaling", "primal", "dual")


@dataclass(frozen=True, slots=True)
class Limits:
    """What was asked of a solver."""

    rel_gap: float
    max_steps: int
    time_limit: float | None
    device: str
    method: Method
    solver: str
    callback: Callback | None
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """What a solver found: the attributes that `Design` has from it."""

    strategy: Strategy
    certificate: Certificate
    dual_factors: tuple[tuple[Array, Array], ...]
    status: Status
    steps: int
    eigendecompositions: int
    seconds: float
