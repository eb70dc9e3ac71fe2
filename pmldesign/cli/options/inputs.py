"""Options and arguments that name what is read: workloads, strategies, schemas, weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmldesign.cli.options.common import file_option
from pmldesign.errors import InvalidInputError

if TYPE_CHECKING:
    from pmldesign.strategies import Strategy
    from pmldesign.workloads import Workload

schema_option = file_option(
    "--schema",
    help="Attributes of people: WORKLOAD is then written with their names (docs/release.md).",
)
participation_option = click.option(
    "--participation",
    metavar="K,every=B|K,min-sep=B",
    help="Streams: a person takes part in up to K steps, exactly or at least B apart.",
)
weights_option = file_option(
    "--weights",
    help="A weight for each query, which multiplies its error: one number a line, .csv or .npy.",
)
known_option = click.option(
    "--known",
    metavar="WORKLOAD",
    help="Queries whose answers are public and not protected: total, or a partition of the cells.",
)

strategy_help = (
    "STRATEGY is a strategy file of `pmldesign optimize`, any matrix as .npy, .npz, .csv or .mtx "
    "(a row for each measurement), or the name of a workload, whose own queries are measured."
)


def load_strategy(text: str, schema: Path | None = None) -> Strategy:
    """The strategy in a file, or the queries of a named workload measured themselves.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: it holds no strategy, or the name is not known.
    """
    from pmldesign.files import read_strategy
    from pmldesign.strategies import workload_strategy

    if Path(text).suffix.lower() == ".npz":
        return read_strategy(text)
    queries = load_queries(text, schema)
    return workload_strategy(queries).renamed(queries.name)


def load_queries(
    text: str,
    schema: Path | None,
    note: Callable[[str], None] | None = None,
    *,
    weights: Path | None = None,
) -> Workload:
    """The workload that an argument means: with a schema a file, or names of attributes.

    Raises:
        FileError: a file cannot be read.
        InvalidInputError: it is no workload, no schema, or the weights do not fit.
    """
    from pmldesign.files.workloads import is_matrix_path, load_workload

    if weights is not None:
        from pmldesign.files import read_prior
        from pmldesign.workloads.weighting.weigh import weighted

        queries = load_queries(text, schema, note)
        return weighted(queries, read_prior(weights, name="weights"))
    if schema is None or is_matrix_path(text):
        return load_workload(text, note=note)
    from pmldesign.release.people.queries import parse_queries
    from pmldesign.release.people.schema import read_schema

    return parse_queries(text, read_schema(schema)).workload


def load_known(text: str | None, schema: Path | None, neighbours: str | None) -> Any:
    """What --known stands for: "total", a workload, or None; with a warning.

    Raises:
        FileError, InvalidInputError: as `load_queries`; or --neighbours add-remove.
    """
    if text is None:
        return None
    if neighbours == "add-remove":
        raise InvalidInputError(
            "--known is for records that are replaced, which leaves the known answers as they are;"
            " leave --neighbours out"
        )
    warn_of_known(text)
    return text if text == "total" else load_queries(text, schema)


def warn_of_known(name: str) -> None:
    """Say on standard error that what public answers tell is not protected."""
    from pmldesign.cli.terminal.process import complain

    complain(
        f"warning: the answers to {name!r} count as public; neither they nor what they tell about a"
        " record is protected"
    )
