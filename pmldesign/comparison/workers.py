"""Where tasks run: in this process, in others here, or on a cluster of Dask or Ray."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError, require_extra

Backend = Literal["processes", "dask", "ray"]
NEEDS = {
    "processes": ("joblib", "jobs"),
    "dask": ("distributed", "dask"),
    "ray": ("ray", "ray"),
}
"""For every backend the package and the extra that brings it."""


class Lost(Enum):
    """What there is in place of a result."""

    LOST = "the worker died"


LOST: Final = Lost.LOST
"""What a task yields whose worker died twice."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Where tasks run.

    Attributes:
        jobs: how many at a time; None for one. A running cluster of Dask does as many as it can.
        backend: "processes" of this machine, "dask" or "ray".
        address: of a running cluster's scheduler; None starts one of `jobs` workers here.

    Raises:
        InvalidInputError: jobs below 1, an address without a cluster, or a package that is missing.
    """

    jobs: int | None = None
    backend: Backend = "processes"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None:
            object.__setattr__(self, "jobs", whole("jobs", self.jobs))
        if self.backend not in NEEDS:
            raise InvalidInputError(
                f"backend must be one of {', '.join(NEEDS)}, got {self.backend!r}"
            )
        if self.address is not None and self.backend == "processes":
            raise InvalidInputError("address is that of a cluster: give backend dask or ray too")
        package, extra = NEEDS[self.backend]
        if not self.here:
            asked = f"jobs = {self.jobs}" if extra == "jobs" else f"backend {self.backend}"
            require_extra(asked, package, extra, ", or leave it out")

    @property
    def here(self) -> bool:
        """Whether all is done in this process."""
        return self.backend == "processes" and (self.jobs or 1) == 1
