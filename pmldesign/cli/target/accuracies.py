"""The options that say how accurate answers are to be, for `pmldesign target`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pmldesign.cli.options.fields import given, option
from pmldesign.designs.targets.accuracy import Targets, as_targets, named_targets
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_prior
from pmldesign.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class AccuracyOptions:
    """A standard deviation or a half-width, for all queries or for each."""

    max_std: float | None = option("Largest standard deviation.", metavar="C")
    half_width: float | None = option("Or half-width of intervals at --level.", metavar="H")
    level: float = option(
        "Of these intervals; where it is given, --targets and --table-std are half-widths.",
        default=0.95,
    )
    targets: Path | None = option("Or one number for each query: one number a line, .csv or .npy.")
    table_std: tuple[str, ...] = option(
        "Or for parts of WORKLOAD by name or number from 1, or queries by their labels; "
        "--max-std for the others.",
        multiple=True,
        type=str,
        metavar="NAME=C,...",
    )

    def of(self, queries: Workload, text: str) -> Targets:
        """What the options ask for.

        Args:
            queries: the workload.
            text: how it was written, whose parts have names.

        Raises:
            FileError: the file of targets cannot be read.
            InvalidInputError: none, or several that do not go together.
        """
        number = self.max_std if self.half_width is None else self.half_width
        if self.max_std is not None and self.half_width is not None:
            raise InvalidInputError("give either --max-std or --half-width, not both")
        if self.max_std is not None and given("level"):
            raise InvalidInputError("--level is of half-widths; take --half-width, not --max-std")
        level = self.level if self.half_width is not None or given("level") else None
        if self.targets is not None:
            if number is not None or self.table_std:
                raise InvalidInputError(
                    "--targets has a number for each query; leave the others out"
                )
            return as_targets(
                Targets(read_prior(self.targets, name="targets"), level=level), queries
            )
        if self.table_std:
            named = named_targets(queries, _named(",".join(self.table_std), text), number)
            return as_targets(replace(named, level=level), queries)
        if number is None:
            raise InvalidInputError(
                "say how accurate the answers are to be: --max-std 5, --half-width 10, --targets"
                " FILE or --table-std"
            )
        return as_targets(Targets(number, level=level), queries)


def _named(text: str, workload: str) -> Mapping[str, float]:
    """Numbers by name: "A=20,B=5"; a name may have commas and signs of equality itself."""
    named: dict[str, float] = {}
    rest = ""
    for part in text.split(","):
        piece = f"{rest},{part}" if rest else part
        name, equals, number = piece.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            rest = piece
            continue
        if rest == "" and equals and name.strip() and _begins_part(piece, text, workload):
            rest = piece
            continue
        named[name.strip()] = value
        rest = ""
    if rest or "" in named or not named:
        raise InvalidInputError(
            f"--table-std is written as NAME=20,NAME=5, got {text[:60]!r}; a part may be called by"
            " its number from 1"
        )
    return named


def _begins_part(piece: str, text: str, workload: str) -> bool:
    """Whether what looks like NAME=C is the beginning of a longer name of a part."""
    parts = [part.strip() for part in workload.split("+")]
    longer = [part for part in parts if part.startswith(piece.strip()) and f"{part}=" in text]
    return bool(longer) and piece.rpartition("=")[0].strip() not in parts
