"""The options of a guarantee, the guarantee that they ask for, and the ledger that pays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmldesign.cli.options.fields import given, group, numbers, option
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import (
    PML,
    ZCDP,
    ApproxDP,
    ApproxPML,
    EnvelopePML,
    GaussianDP,
    Guarantee,
    PureDP,
    RenyiDP,
)
from pmldesign.privacy.priors import least_probability

if TYPE_CHECKING:
    from pmldesign.release.costs.ledger import Ledger

LARGE_BUDGET, LARGE_DELTA = 10.0, 0.01
"""Epsilon, rho and mu above it get a warning, and a delta of differential privacy."""
EXAMPLES = {
    "epsilon": "0.5,1",
    "delta": "1e-6,1e-9",
    "alpha": "0.01,0.05",
    "rho": "0.1,0.5",
    "mu": "0.5,1",
}
"""Options that may be lists, and an example of each."""
LISTS: Mapping[str, Any] = {
    name: {"type": str, "metavar": "NUMBER,...", "more": " Several: separated by commas."}
    for name in EXAMPLES
}
"""What makes lists of these, for `PromiseOptions.build_all`."""


@dataclass(frozen=True, kw_only=True)
class AlphaOptions:
    """A least probability for each cell, of a file or from a sample."""

    alpha_file: Path | None = option("PML: the least probability of each cell, one number a cell.")
    alpha_sample: Path | None = option(
        "PML: a public sample of the same population, its people (with --schema) or their counts, "
        "one for each cell, from which lower confidence limits for the probabilities of the cells "
        "are taken, and how far all of these may be from the frequencies."
    )
    confidence: float = option(
        "Probability that all limits from --alpha-sample hold together.", default=0.99
    )

    def vector(self) -> tuple[float, ...] | None:
        """The vector of --alpha-file, or the limits from --alpha-sample; None without either.

        Raises:
            FileError: the file cannot be read.
            InvalidInputError: both, or contents that are no such vector.
        """
        if self.alpha_sample is None and given("confidence"):
            raise InvalidInputError("--confidence is for --alpha-sample; leave it out")
        if self.alpha_sample is None and self.alpha_file is None:
            return None
        from pmldesign.files import read_prior
        from pmldesign.privacy.public_sample import sampled_alpha

        if self.alpha_sample is None:
            assert self.alpha_file is not None
            return tuple(read_prior(self.alpha_file, name="alpha").tolist())
        if self.alpha_file is not None:
            raise InvalidInputError("give one of --alpha, --alpha-file, --alpha-sample, not both")
        limits = sampled_alpha(self._sample(self.alpha_sample), self.confidence)
        unseen = sum(limit == 0 for limit in limits)
        if unseen:
            from pmldesign.cli.documents.document import note

            cells = f"{unseen} of {len(limits)} cells are"
            note(f"{cells} not in the sample; their limit is 0, and they hide nobody")
        return limits

    def _sample(self, path: Path) -> Any:
        """The counts of a sample in the order of the cells: people are counted by --schema."""
        from pmldesign.files import read_prior

        schema = click.get_current_context().params.get("schema")
        if schema is not None:
            from pmldesign.release.people.histogram import counted_sample

            counts = counted_sample(path, schema)
            if counts is not None:
                return counts
        return read_prior(path, name="the sample")


@dataclass(frozen=True, kw_only=True)
class PromiseOptions:
    """A guarantee and its noise; as `LISTS` its numbers are texts, for `build_all`."""

    epsilon: Any = option("Privacy parameter of DP or PML.", type=float)
    delta: Any = option("Slack or failure probability.", type=float)
    rho: Any = option("Of zCDP, in place of epsilon.", type=float)
    mu: Any = option("Of Gaussian DP, in place of epsilon.", type=float)
    renyi: str | None = option(
        "Renyi DP of one order, in place of epsilon.", metavar="ORDER,EPSILON"
    )
    alpha: Any = option(
        "PML: every cell has at least this probability; in (0, 1/cells].", type=float
    )
    alphas: AlphaOptions = group()
    failure: str = option(
        "PML with --delta: an additive slack on every event, or the probability of a larger "
        "leakage after any post-processing.",
        default="envelope",
        type=click.Choice(["slack", "envelope"]),
    )
    neighbours: str | None = option(
        "DP: how neighbours differ; add-remove by default. PML is always replace.",
        type=click.Choice(["add-remove", "replace"]),
    )
    noise: Any = option(
        "auto takes the noise of smaller error.",
        default="auto",
        type=click.Choice(["auto", "gaussian", "laplace", "cube"]),
    )

    def build(self) -> Guarantee | None:
        """The guarantee that the options ask for; None if they ask for none.

        Raises:
            InvalidInputError: options that do not go together, or out of range.
        """
        currency = self._currency()
        if currency is None:
            return warn_of_large(self._with_epsilon())
        others = {name: getattr(self, name) for name in ("epsilon", "delta", "alpha")}
        others |= {"alpha-file": self.alphas.alpha_file, "alpha-sample": self.alphas.alpha_sample}
        named = [name for name, value in others.items() if value is not None]
        if named:
            raise InvalidInputError(
                f"--rho, --mu and --renyi are guarantees of their own; leave --{named[0]} out"
            )
        return warn_of_large(currency)

    def build_beside(self, held: Guarantee | None) -> Guarantee | None:
        """What `build` gives, where a file has a guarantee that holds if the options ask for none.

        Raises:
            InvalidInputError: as `build`, or --neighbours alone says another relation.
        """
        given = self.build()
        relation = None if given or held is None else held.neighbours
        if relation and self.neighbours not in (None, relation):
            raise InvalidInputError(
                f"the guarantee of the file is for {relation} neighbours, and --neighbours"
                f" {self.neighbours} alone does not change it; leave it out, or design for it"
            )
        return given

    def build_all(self) -> list[Guarantee | None]:
        """The guarantees of every combination of `LISTS`; [None] if the options ask for none.

        Raises:
            InvalidInputError: as `build`, or a list that holds something else than numbers.
        """
        texts = {name: getattr(self, name) for name in EXAMPLES}
        lists = [
            [None] if text is None else numbers(f"--{name}", text, example=EXAMPLES[name])
            for name, text in texts.items()
        ]
        combinations: Iterator[dict[str, Any]] = (
            dict(zip(EXAMPLES, values, strict=True)) for values in product(*lists)
        )
        return [replace(self, **values).build() for values in combinations]

    def _with_epsilon(self) -> Guarantee | None:
        """The guarantee of an epsilon: differential privacy, or PML."""
        epsilon, delta = self.epsilon, self.delta
        least: float | tuple[float, ...] | None = self.alpha
        vector = self.alphas.vector()
        if vector is not None:
            if least is not None:
                raise InvalidInputError(
                    "give one of --alpha, --alpha-file, --alpha-sample, not both"
                )
            least = vector
        if given("failure") and (least is None or delta is None):
            raise InvalidInputError(
                "--failure is for PML with a delta; give --alpha and --delta too, or leave it out"
            )
        if epsilon is None:
            if delta is not None or least is not None:
                raise InvalidInputError(
                    "--delta and --alpha need --epsilon; add for example --epsilon 1"
                )
            return None
        if least is not None:
            if self.neighbours == "add-remove":
                raise InvalidInputError(
                    "PML (--alpha) speaks of a public number of records: its neighbours are always"
                    " 'replace'; leave --neighbours out"
                )
            loose = EnvelopePML if self.failure == "envelope" else ApproxPML
            return PML(epsilon, least) if delta is None else loose(epsilon, delta, least)
        relation: Any = self.neighbours or "add-remove"
        return PureDP(epsilon, relation) if delta is None else ApproxDP(epsilon, delta, relation)

    def _currency(self) -> Guarantee | None:
        """The guarantee that --rho, --mu or --renyi asks for; None if none of them is given."""
        relation: Any = self.neighbours or "add-remove"
        if sum(value is not None for value in (self.rho, self.mu, self.renyi)) > 1:
            raise InvalidInputError("give only one of --rho, --mu and --renyi")
        if self.rho is not None:
            return ZCDP(self.rho, relation)
        if self.mu is not None:
            return GaussianDP(self.mu, relation)
        if self.renyi is None:
            return None
        values = numbers("--renyi", self.renyi, example="8,0.5")
        if len(values) != 2:
            raise InvalidInputError(
                f"--renyi is an order and an epsilon: 8,0.5; got {self.renyi!r}"
            )
        return RenyiDP(values[0], values[1], relation)


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


def warn_of_large(guarantee: Guarantee | None) -> Guarantee | None:
    """The guarantee; with a line on standard error where it hardly protects anybody."""
    from pmldesign.cli.process import complain

    for name in ("epsilon", "rho", "mu"):
        if (budget := getattr(guarantee, name, 0.0)) > LARGE_BUDGET:
            complain(f"warning: {name} {budget:g} hardly protects anybody; usual are 0.1 to 10")
    if isinstance(guarantee, ApproxDP) and guarantee.delta > LARGE_DELTA:
        complain(
            f"warning: delta {guarantee.delta:g} is large: to publish that part of the records as"
            " they are would keep the promise too; take far less than one over their number"
        )
    return guarantee


def own_grid(when: str) -> Any:
    """--own-grid or --no-own-grid; None for neither, and what that means."""
    return option(
        "Draw Laplace noise on the whole numbers that are measured, wherever that is less, or"
        f" nowhere: epsilon alone holds. Without either: {when}.",
        "--own-grid/--no-own-grid",
    )


def at_alpha() -> Any:
    """--at-alpha A."""
    return option(
        "Also report what leaks (PML) if every cell has at least this probability.", metavar="A"
    )


def require_alpha_fits(alpha: float | None, cells: int, *, participation: Any = None) -> None:
    """Refuse a number of --at-alpha that so many cells cannot have, or beside participations.

    Raises:
        InvalidInputError: it is above 1/cells, or not positive; or people take part several times.
    """
    if alpha is None:
        return
    least_probability(alpha, cells)
    if participation is not None:
        raise InvalidInputError(
            "--at-alpha is about records, not about people who take part in several steps; leave "
            "it out, or --participation"
        )
