"""The options of a guarantee, the resulting guarantee, and the ledger that pays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmldesign.arguments import as_number
from pmldesign.cli.options.fields import numbers, option
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantee_syntax import SAMPLE, parse_guarantee
from pmldesign.privacy.guarantees import PML, ApproxDP, EnvelopePML, Guarantee, PureDP
from pmldesign.privacy.priors import least_probability

if TYPE_CHECKING:
    from pmldesign.releases.costs.ledger import Ledger

LARGE_BUDGET, LARGE_DELTA = 10.0, 0.01
"""Epsilon, rho and mu above it get a warning, and a delta of differential privacy."""
EXAMPLES = {"epsilon": "0.5,1", "delta": "1e-6,1e-9", "alpha": "0.01,0.05"}
"""Options that may be lists, and an example of each."""
LISTS: Mapping[str, Any] = {
    name: {"type": str, "metavar": "NUMBER,...", "more": " Separate several values by commas."}
    for name in ("epsilon", "delta")
} | {
    "alpha": {"metavar": "NUMBER,...|FILE"},
    "guarantee": {"multiple": True, "type": str, "more": " Repeat it for several guarantees."},
}
"""Changes that make lists of these, for `PromiseOptions.build_all`."""


def read_alpha(source: str, confidence: float | None = None) -> Any:
    """The least probabilities of the cells in a file, or confidence limits from a sample.

    Args:
        source: a file with one number for each cell, or sample:FILE with a public sample of the
            population: people (with --schema), or their counts in the order of the cells.
        confidence: probability, in (0, 1), that all limits from the sample hold together; None for
            0.99.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: its contents are not such a vector or sample.
    """
    from pmldesign.files import read_prior
    from pmldesign.privacy.public_sample import sampled_alpha

    if not source.startswith(SAMPLE):
        return tuple(read_prior(source, name="alpha").tolist())
    counts = _sample(Path(source.removeprefix(SAMPLE)))
    limits = sampled_alpha(counts, 0.99 if confidence is None else confidence)
    unseen = sum(limit == 0 for limit in limits)
    if unseen:
        from pmldesign.cli.documents.document import note

        note(
            f"{unseen} of {len(limits)} cells are not in the sample; their limit is 0, so"
            " uncertainty about them protects no one"
        )
    return limits


def _sample(path: Path) -> Any:
    """The counts of a sample in the order of the cells; people are counted with --schema."""
    from pmldesign.files import read_prior

    schema = click.get_current_context().params.get("schema")
    if schema is not None:
        from pmldesign.releases.people.histogram import counted_sample

        counts = counted_sample(path, schema)
        if counts is not None:
            return counts
    return read_prior(path, name="the sample")


def parse_alpha(text: str) -> Any:
    """The value of --alpha: a number, FILE, or sample:FILE[,confidence=C].

    Raises:
        FileError: a file cannot be read.
        InvalidInputError: another syntax, or contents that do not fit.
    """
    number = as_number(text)
    if number is not None:
        return number
    source, comma, rest = text.rpartition(",confidence=")
    confidence = as_number(rest) if comma else None
    if comma and (confidence is None or not source.startswith(SAMPLE)):
        raise InvalidInputError(
            f"--alpha must be a number, FILE or sample:FILE[,confidence=0.99], got {text!r}"
        )
    return read_alpha(source if comma else text, confidence)


@dataclass(frozen=True, kw_only=True)
class PromiseOptions:
    """A guarantee and its noise; with `LISTS` its numbers are texts, for `build_all`."""

    epsilon: Any = option("Privacy parameter epsilon of DP or PML, in nats.", type=float)
    delta: Any = option(
        "Delta of DP, or failure probability of PML, in (0, 1). Default: 0.", type=float
    )
    alpha: str | None = option(
        "Minimum probability of a cell, for PML instead of DP: a number in (0, 1/cells], a file"
        " with"
        " a number for each cell, or confidence limits from a public sample of the population,"
        " sample:FILE[,confidence=0.99].",
        metavar="NUMBER|FILE",
    )
    guarantee: Any = option(
        "Any guarantee as one text, instead of --epsilon, --delta and --alpha: dp:1,delta=1e-6,"
        " zcdp:0.5, gdp:1, renyi:8,0.3 or pml:1,alpha=0.1,delta=1e-6,failure=slack.",
        metavar="KIND:NUMBER,...",
    )
    neighbours: str | None = option(
        "Neighbouring relation of DP. Default: add-remove; PML always uses replace.",
        type=click.Choice(["add-remove", "replace"]),
    )
    noise: Any = option(
        "Kind of noise; auto chooses the smallest error, integer-laplace is Laplace noise on"
        " integers.",
        default="auto",
        type=click.Choice(["auto", "gaussian", "laplace", "integer-laplace", "cube"]),
    )

    def build(self, *, open_budget: bool = False) -> Guarantee | None:
        """The guarantee of the options; None if they specify none.

        Args:
            open_budget: the text of --guarantee leaves its budget open.

        Raises:
            InvalidInputError: options that do not go together, or out of range.
        """
        if self.guarantee is None:
            return warn_of_large(self._with_epsilon())
        for name in ("epsilon", "delta", "alpha"):
            if getattr(self, name) is not None:
                raise InvalidInputError(
                    f"--guarantee is a complete guarantee; remove --{name}, or write"
                    f" {'the epsilon first' if name == 'epsilon' else f'{name}=...'} in its text"
                )
        relation = self.neighbours or "add-remove"
        found = parse_guarantee(
            self.guarantee, neighbours=relation, read_alpha=read_alpha, open_budget=open_budget
        )
        if self.neighbours not in (None, found.neighbours.value):
            raise InvalidInputError(
                f"--guarantee {self.guarantee} is for {found.neighbours.value} neighbours; remove"
                f" --neighbours {self.neighbours}"
            )
        return warn_of_large(found)

    def build_beside(self, held: Guarantee | None) -> Guarantee | None:
        """The result of `build`, for a file whose guarantee holds if the options specify none.

        Raises:
            InvalidInputError: as `build`, or --neighbours alone names another relation.
        """
        given = self.build()
        relation = None if given or held is None else held.neighbours
        if relation and self.neighbours not in (None, relation):
            raise InvalidInputError(
                f"the guarantee of the file is for {relation} neighbours, and --neighbours"
                f" {self.neighbours} does not change it; remove --neighbours, or design for it"
            )
        return given

    def build_all(self) -> list[Guarantee | None]:
        """The guarantees of every combination of `LISTS`; [None] if the options specify none.

        Raises:
            InvalidInputError: as `build`, or a list with an entry that is not a number.
        """
        if self.guarantee:
            return [replace(self, guarantee=text).build() for text in self.guarantee]
        lists = [self._listed(name) for name in EXAMPLES]
        combinations: Iterator[dict[str, Any]] = (
            dict(zip(EXAMPLES, values, strict=True)) for values in product(*lists)
        )
        return [replace(self, guarantee=None, **values).build() for values in combinations]

    def _listed(self, name: str) -> list[Any]:
        """The values of an option that may be a list; [None] without it."""
        text = getattr(self, name)
        if text is None:
            return [None]
        if name == "alpha":
            if text.startswith(SAMPLE) or "," not in text:
                return [text]
            return [*map(repr, numbers("--alpha", text, example=EXAMPLES[name]))]
        return numbers(f"--{name}", text, example=EXAMPLES[name])

    def _with_epsilon(self) -> Guarantee | None:
        """The guarantee of an epsilon: differential privacy, or PML."""
        epsilon, delta = self.epsilon, self.delta
        if epsilon is None:
            if delta is not None or self.alpha is not None:
                raise InvalidInputError(
                    "--delta and --alpha need --epsilon; add for example --epsilon 1"
                )
            return None
        if self.alpha is not None:
            if self.neighbours == "add-remove":
                raise InvalidInputError(
                    "PML (--alpha) is for a public number of records, so its neighbours are always"
                    " 'replace'; remove --neighbours"
                )
            least = parse_alpha(self.alpha)
            return PML(epsilon, least) if delta is None else EnvelopePML(epsilon, delta, least)
        relation: Any = self.neighbours or "add-remove"
        return PureDP(epsilon, relation) if delta is None else ApproxDP(epsilon, delta, relation)


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """Which ledger pays."""

    ledger: str | None = option(
        "Ledger that pays for the release and refuses to exceed its budget: a file, or a database"
        " for several machines (postgresql://...).",
        metavar="FILE|URL",
    )
    population: str | None = option(
        "Name of the population of the ledger. Default: the path of DATA.", metavar="NAME"
    )
    confirm_same_population: bool = option(
        "Confirm that DATA, which differ from those of earlier releases, are about the same people."
    )
    budget: str | None = option(
        "Budget of a new ledger: epsilon=E[,delta=D][,pure=P], where pure limits Laplace noise.",
        metavar="epsilon=E,...",
    )
    plan: str | None = option(
        "Noise of all releases of a new ledger, fixed in advance at a smaller total cost, as in"
        " `pmldesign ledger plan`.",
        metavar="PLAN",
    )

    def account(self) -> Ledger | None:
        """The ledger with its options; None without one.

        Raises:
            InvalidInputError: options of a ledger are given, but no ledger.
        """
        from pmldesign.releases.costs.ledger import ledger_of

        told = asdict(self)
        return ledger_of(told.pop("ledger"), **told)

    @property
    def paths(self) -> list[Path]:
        """The file of the ledger, if it is one."""
        return [Path(self.ledger)] if self.ledger and "://" not in self.ledger else []


def warn_of_large(guarantee: Guarantee | None) -> Guarantee | None:
    """The guarantee; with a warning on standard error if it gives almost no protection."""
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


def at_alpha() -> Any:
    """--at-alpha A."""
    return option(
        "Minimum probability of a cell at which the leakage (PML) is also reported, in"
        " (0, 1/cells].",
        metavar="NUMBER",
    )


def require_alpha_fits(alpha: float | None, cells: int, *, participation: Any = None) -> None:
    """Refuse a number of --at-alpha that is impossible for so many cells or participations.

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
