"""Options and arguments for inputs: workloads, strategies, schemas, weights.

A shell completes workloads, strategies and lists of them: names come with sizes that work,
`prefix:64`, to be edited, as shells take a colon for the end of a word. Files are completed by the
shell itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from pmldesign.arguments import positive
from pmldesign.cli.options.fields import option
from pmldesign.cli.options.promises import PromiseOptions
from pmldesign.errors import InvalidInputError

if TYPE_CHECKING:
    from pmldesign.privacy.guarantees import Guarantee
    from pmldesign.releases.people.schema import Schema
    from pmldesign.strategies import Strategy
    from pmldesign.strategies.participation.schema import AnyParticipation
    from pmldesign.workloads import Workload

WORKLOAD_HELP = (
    "WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), a product (*) or union"
    " (+) of names, a matrix (.npy, .npz, .csv, .mtx), or - for standard input."
)
STRATEGY_HELP = (
    "STRATEGY is a file of `pmldesign optimize`, a matrix with one row per measurement (.npy, .npz,"
    " .csv, .mtx), or the name of a workload."
)
TOTAL = {"help": "Time limit for the whole command in seconds. Default: no limit."}
FILE_ENDINGS = (".npy", ".npz", ".csv", ".mtx")


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """When the solver of a design stops."""

    rel_gap: float = option(
        "Relative gap between the bounds at which the solver stops: upper / lower - 1.",
        default=1e-6,
        metavar="GAP",
        check=partial(positive, "rel_gap"),
    )
    effort: str = option(
        "Amount of work spent on searches, which find good strategies without an optimality proof.",
        default="normal",
        type=click.Choice(["quick", "normal", "thorough"]),
    )
    time_limit: float | None = option(
        "Time limit for each design in seconds, checked between steps. Default: no limit.",
        metavar="SECONDS",
        check=partial(positive, "time_limit"),
    )


@dataclass(frozen=True, kw_only=True)
class QuestionOptions:
    """The queries: attributes, weights, invariants, and how often people take part."""

    participation: str | None = option(
        "Bounded contributions of one person. In a stream: K steps, exactly B apart"
        " (K,every=B) or at least (K,min-sep=B), or steps drawn with probability Q"
        " (sampled,every=B,rate=Q). In a table: K rows in any cells (K,any) or in different ones"
        " (K,one-per=cell). Default: one, or as in the schema.",
        metavar="K,RULE",
    )
    known: str | None = option(
        "Invariants, whose exact answers are public: total, or a partition of the cells.",
        metavar="WORKLOAD",
    )
    weights: Path | None = option(
        "File with a weight for each query, which multiplies its error: .csv or .npy. Default: 1."
    )
    schema: Path | None = option(
        "File with the attributes of people (.json), whose names WORKLOAD then uses."
    )

    def queries(self, text: str, note: Callable[[str], None] | None = None) -> Workload:
        """The workload of an argument: a file, or with a schema also names of attributes.

        Raises:
            FileError: a file cannot be read.
            InvalidInputError: the workload or the schema is invalid, or the weights do not fit.
        """
        from pmldesign.files.workloads import is_matrix_path, load_workload

        if self.weights is not None:
            from pmldesign.files import read_prior
            from pmldesign.workloads.weighting import weighted

            queries = replace(self, weights=None).queries(text, note)
            return weighted(queries, read_prior(self.weights, name="weights"))
        if self.schema is None or is_matrix_path(text):
            return load_workload(text, note=note)
        return self.named(text)

    def named(self, text: str) -> Workload:
        """The workload of names of attributes, which the schema has.

        Raises:
            FileError: the schema cannot be read.
            InvalidInputError: the workload or the schema is invalid.
        """
        from pmldesign.releases.people.queries import parse_queries

        assert self.form is not None
        return parse_queries(text, self.form).workload

    @cached_property
    def form(self) -> Schema | None:
        """The attributes of people, read once; None without a schema.

        Raises:
            FileError, InvalidInputError: the schema cannot be read or is invalid.
        """
        from pmldesign.releases.people.schema import read_schema

        return None if self.schema is None else read_schema(self.schema)

    def strategy(self, text: str) -> Strategy:
        """The strategy in a file, or the queries of a named workload measured themselves.

        Raises:
            FileError: the file cannot be read.
            InvalidInputError: it holds no strategy, or the name is not known.
        """
        from pmldesign.files import read_strategy
        from pmldesign.strategies import workload_strategy

        if Path(text).suffix.lower() == ".npz":
            return read_strategy(text)
        queries = self.queries(text)
        from pmldesign.strategies.base import renamed

        return renamed(workload_strategy(queries), queries.name)

    def public(self, neighbours: str | None) -> Any:
        """What --known stands for: "total", a workload, or None; with a warning.

        Raises:
            FileError, InvalidInputError: as `queries`; or --neighbours add-remove.
        """
        if self.known is None:
            return None
        if neighbours == "add-remove":
            raise InvalidInputError(
                "--known is for records that are replaced, which leaves the known answers as they"
                " are; leave --neighbours out"
            )
        warn_of_known(self.known)
        if self.known == "total":
            return self.known
        return replace(self, weights=None).queries(self.known)

    @cached_property
    def takes_part(self) -> AnyParticipation | None:
        """How often a person takes part, of --participation or the schema; None for once.

        Raises:
            FileError: the schema cannot be read.
            InvalidInputError: both define it, or it is invalid.
        """
        if self.participation is None and self.schema is None:
            return None
        from pmldesign.strategies.participation.schema import as_participation

        asked = as_participation(self.participation)
        told = None if self.form is None else self.form.participation
        if asked is not None and told is not None and asked != told:
            raise InvalidInputError(
                f"the schema says that a person has {told.describe()}; leave --participation out"
            )
        return asked or told

    def note_units(self, queries: Workload, note: Callable[[str], None]) -> None:
        """Say so where a design for sums or means in large units leaves counts little budget."""
        if self.schema is None or self.weights is not None:
            return
        from pmldesign.releases.people.queries import NamedQueries, named_queries

        named = named_queries(queries, self.form)
        unlike = named.unlike() if isinstance(named, NamedQueries) else None
        if unlike is not None:
            large, small, ratio, weight = unlike
            note(
                f"an error of 1 counts alike everywhere, but {large!r} has numbers up to"
                f" {ratio:.3g} times as large as {small!r}, which gets little of the budget; write"
                f" {weight:.1g}*{large}, or for means the number of people (income:mean,1000)"
            )

    def design_options(self, limits: LimitOptions, promise: PromiseOptions) -> dict[str, Any]:
        """What `DesignOptions` is made of; a guarantee says its neighbours itself."""
        relation = promise.neighbours or "add-remove"
        asked = {"participation": self.takes_part, "neighbours": relation}
        return asdict(limits) | asked | {"fractions": self.fractions}

    def with_guarantee(
        self, text: str, promise: PromiseOptions, note: Callable[[str], None]
    ) -> tuple[Workload, Guarantee | None]:
        """The workload and the requested guarantee, both given the invariants.

        Raises:
            FileError, InvalidInputError: as `queries`, `public` and `PromiseOptions.build`.
        """
        queries, guarantee = self.queries(text, note), promise.build()
        from pmldesign.factorization import with_known

        self.require_cells(guarantee)
        return with_known(queries, guarantee, self.public(promise.neighbours))

    @property
    def fractions(self) -> bool:
        """Whether cells hold fractions of records: the schema has numbers.

        Raises:
            FileError, InvalidInputError: as `form`.
        """
        return self.form is not None and self.form.denominator > 1

    def require_cells(self, guarantee: Guarantee | None) -> None:
        """Refuse PML if the schema has numbers: records are then mixtures of cells.

        Raises:
            FileError, InvalidInputError: as `form`; or the guarantee is PML.
        """
        if guarantee is not None and guarantee.pml:
            from pmldesign.mechanisms import require_cells

            require_cells(guarantee, fractions=self.fractions)


def warn_of_known(name: str) -> None:
    """Warn on standard error that the information in public answers is not protected."""
    from pmldesign.cli.process import complain

    complain(
        f"warning: the answers to {name!r} count as public; neither they nor what they tell about a"
        " record is protected"
    )


class WorkloadName(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A workload: a name, products and unions of names, or a file."""

    name = "workload"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature, as the next
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Examples of all names, after the last * or +; and files."""
        from pmldesign.workloads import named_workloads

        start = max(incomplete.rfind("*"), incomplete.rfind("+")) + 1
        before, last = incomplete[:start], incomplete[start:]
        names = [
            CompletionItem(before + entry.example, help=entry.description)
            for entry in named_workloads()
            if entry.example.startswith(last)
        ]
        return names + ([] if start else _files(incomplete))


class StrategyNames(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Strategies separated by commas: names, or files."""

    name = "strategies"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature, as the next
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """All names after the last comma, and files."""
        from pmldesign.comparison.tables import DESIGNED
        from pmldesign.strategies import BASELINES

        before, comma, last = incomplete.rpartition(",")
        names = [*DESIGNED, *(entry.name for entry in BASELINES), *([] if comma else ["all"])]
        listed = before.split(",")
        items = [name for name in names if name.startswith(last) and name not in listed]
        return [CompletionItem(before + comma + name) for name in items] + _files(
            last, before + comma
        )


def _files(incomplete: str, before: str = "") -> list[CompletionItem]:
    """Files that hold a matrix, and folders."""
    folder, slash, stem = incomplete.rpartition("/")
    try:
        paths = sorted(Path(folder or ("/" if slash else ".")).iterdir())
    except OSError:
        return []
    start = before + folder + slash
    return [
        CompletionItem(start + path.name + ("/" if path.is_dir() else ""))
        for path in paths
        if path.name.startswith(stem)
        and (path.is_dir() or path.suffix.lower() in FILE_ENDINGS)
        and (stem or not path.name.startswith("."))
    ]
