"""The options of a ledger, and the ledger that they mean."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pmldesign.cli.options.fields import option

if TYPE_CHECKING:
    from pmldesign.release.costs.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """Which ledger pays."""

    ledger: str | None = option(
        "Keep count of what releases about these people cost, and refuse more than the budget: a"
        " file, or a database for several machines (sqlite:///FILE, postgresql://...).",
        metavar="FILE|URL",
    )
    people: str | None = option("What the people of the ledger are called.", metavar="NAME")
    same_people: bool = option("DATA differ from those before, and are about the same people.")
    budget: str | None = option(
        "With which a new ledger begins; pure is for Laplace noise.",
        metavar="epsilon=E[,delta=D][,pure=P]",
    )
    plan: str | None = option(
        "The noise of all releases of a new ledger (`pmldesign plan`): they cost less together.",
        metavar="PLAN",
    )

    def account(self) -> Ledger | None:
        """The ledger with what is told of it; None without one.

        Raises:
            InvalidInputError: something is told, and there is no ledger.
        """
        from pmldesign.release.costs.ledger import ledger_of

        told = asdict(self)
        return ledger_of(told.pop("ledger"), **told)

    @property
    def paths(self) -> list[Path]:
        """The file of the ledger, if it is one."""
        return [Path(self.ledger)] if self.ledger and "://" not in self.ledger else []
