"""A study: workloads x sizes x p x guarantees x strategies, as described in a TOML file.

    workloads = ["prefix:{n}", "parity:6,3", "workload.npy"]
    n = [10, 100, 1000]               # or { from = 10, to = 1000, count = 7 }
    p = [2, 4, inf]
    strategies = ["least-norm", "tree", "mine.npz"]

    weights = ["none", "w.csv"]       # of queries
    participation = ["once", "16,every=64"]

    guarantees = ["dp:1,delta=1e-6", "zcdp:0.5", "pml:0.5,alpha=alpha.csv"]

Values may be lists wherever they are, and lists mean every combination. Files are looked for in the
folder of the study. The texts of guarantees are those of `privacy.guarantee_syntax`; an alpha is a
number, or the name of a file with one for each cell.
"""

from __future__ import annotations

import hashlib
import math
import os
import tomllib
from collections.abc import Mapping, Sized
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from pmldesign.arguments import exponent, whole
from pmldesign.comparison.tables import DESIGNED
from pmldesign.comparison.units import Demand, Settings, StudiedWorkload, Unit
from pmldesign.designs.options import DesignOptions
from pmldesign.errors import FileError, InvalidInputError, PmldesignError
from pmldesign.files import as_path, read_prior, read_strategy, read_workload
from pmldesign.mechanisms import NoiseChoice
from pmldesign.privacy.guarantee_syntax import parse_guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import BASELINES, Strategy, baseline
from pmldesign.strategies.base import renamed
from pmldesign.strategies.participation.schema import AnyParticipation, as_participation
from pmldesign.workloads import Workload, as_workload, expand_family
from pmldesign.workloads.weighting import weighted

KEYS = (
    "workloads", "n", "p", "strategies", "guarantees", "noise", "neighbours", "effort",
    "weights", "participation",
)  # fmt: skip
LIMITS = ("rel_gap", "time_limit", "max_steps", "buffers")
ONCE, UNWEIGHTED = "once", "none"
MATRICES = (".npy", ".npz", ".csv", ".mtx")
EXAMPLES = {
    "workloads": "prefix:64",
    "strategies": "tree",
    "weights": "w.csv",
    "participation": "16,every=64",
    "guarantees": "dp:1,delta=1e-6",
}
MOST_ROWS = 10**6
"""Of a study: they take a day at ten a second, and a list of many more fills the memory."""


@dataclass(frozen=True, slots=True)
class Study:
    """What is to be computed.

    Attributes:
        workloads: names, and workloads of files, with or without weights, with their identifiers.
        participations: how often a person takes part; None for once.
        values: the p.
        guarantees: for which the noise is calibrated.
        strategies: names, and strategies of files with their fingerprints.
        settings: common to all rows.
    """

    workloads: tuple[StudiedWorkload, ...]
    participations: tuple[AnyParticipation | None, ...]
    values: tuple[float, ...]
    guarantees: tuple[Demand, ...]
    strategies: tuple[tuple[str | Strategy, str], ...]
    settings: Settings

    @property
    def size(self) -> int:
        """How many rows it has."""
        dimensions = (
            self.workloads, self.participations, self.values, self.guarantees, self.strategies
        )  # fmt: skip
        return math.prod(map(len, dimensions))

    def units(self) -> list[Unit]:
        """The rows that share a norm: of a workload, a participation, a p and a relation."""
        by_relation: dict[Neighbours, list[Demand]] = {}
        for demand in self.guarantees:
            relation = (
                self.settings.options.neighbours
                if demand.guarantee is None
                else demand.guarantee.neighbours
            )
            by_relation.setdefault(relation, []).append(demand)
        units = (
            Unit(workload, p, tuple(demands), self.strategies, self._settings(participation))
            for workload, participation, demands, p in product(
                self.workloads, self.participations, by_relation.values(), self.values
            )
        )
        return [*{unit.key: unit for unit in units}.values()]

    def _settings(self, participation: AnyParticipation | None) -> Settings:
        options = self.settings.options
        if participation is None:
            return self.settings
        return replace(self.settings, options=replace(options, participation=participation))


def read_study(source: Mapping[str, Any] | str | os.PathLike[str]) -> Study:
    """A study from a TOML file, or from the content of such a file.

    Raises:
        FileError: the file cannot be read, or is no TOML.
        InvalidInputError: a key that is not known, or a value that the study cannot have.
    """
    if isinstance(source, Mapping):
        return _study(dict(source), Path())
    path = as_path(source, "study")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise FileError(f"cannot read {str(path)!r} as TOML: {error}") from None
    try:
        return _study(table, path.parent)
    except InvalidInputError as error:
        raise InvalidInputError(f"study {str(path)!r}: {error}") from None


def _study(table: dict[str, Any], folder: Path) -> Study:
    allowed = (*KEYS, *LIMITS)
    for key in table:
        if key not in allowed:
            raise InvalidInputError(f"unknown key {key!r}; known are {', '.join(allowed)}")
    for key in ("workloads", "strategies"):
        if not listed(table.get(key)):
            raise InvalidInputError(f'{key} must be a list of names, such as ["prefix:64"]')
    numbers = sizes(table["n"]) if "n" in table else []
    named = texts("workloads", table["workloads"])
    names = [text for name in named for text in _sized(name, numbers)]
    weights = dict.fromkeys(texts("weights", table.get("weights"))) or [UNWEIGHTED]
    often = dict.fromkeys(texts("participation", table.get("participation"))) or [ONCE]
    others = (listed(table.get(key)) for key in ("p", "guarantees", "strategies"))
    _require_few(names, weights, often, *others)
    families = dict.fromkeys(text for name in names for text in expand_family(name))
    limits: dict[str, Any] = {key: number(key, table[key]) for key in LIMITS[:2] if key in table}
    limits |= {key: whole(key, table[key]) for key in LIMITS[2:] if key in table}
    settings = Settings(
        noise=choice("noise", table, get_args(NoiseChoice)),
        options=DesignOptions(
            neighbours=Neighbours(choice("neighbours", table, ("add-remove", "replace"))),
            effort=choice("effort", table, ("normal", "quick", "thorough")),
            **limits,
        ),
    )
    return Study(
        workloads=tuple(_workload(*pair, folder) for pair in product(families, weights)),
        participations=tuple(None if text == ONCE else as_participation(text) for text in often),
        values=tuple(dict.fromkeys(exponent(number("p", p)) for p in listed(table.get("p", 2)))),
        guarantees=tuple(demands_of(table.get("guarantees"), settings.options.neighbours, folder)),
        strategies=tuple(
            _strategy(name, folder)
            for name in dict.fromkeys(texts("strategies", table["strategies"]))
        ),
        settings=settings,
    )


def _require_few(*dimensions: Sized) -> None:
    rows = math.prod(max(1, len(values)) for values in dimensions)
    if rows > MOST_ROWS:
        raise InvalidInputError(f"the study has {rows} rows; at most {MOST_ROWS} are computed")


def _sized(name: str, sizes: list[int]) -> list[str]:
    if "{n}" not in name:
        return [name]
    if not sizes:
        raise InvalidInputError(f"workload {name!r} has an n, but the study gives none: add n = 64")
    return [name.replace("{n}", str(size)) for size in sizes]


def _workload(name: str, weights: str, folder: Path) -> StudiedWorkload:
    """A workload by its name, or that of its file, and its weights."""
    label = "" if weights == UNWEIGHTED else weights
    if Path(name).suffix.lower() in MATRICES:
        value: str | Workload = read_workload(folder / name)
        told = _digest(folder / name)
    else:
        value = told = name  # every worker reads it for itself
        try:
            as_workload(name)
        except PmldesignError as error:
            raise InvalidInputError(str(error)) from None
    if not label:
        return StudiedWorkload(value, told)
    queries = as_workload(value)
    numbers = read_prior(folder / weights, name="weights")
    digest = _digest(folder / weights)
    return StudiedWorkload(weighted(queries, numbers, name=queries.name), f"{told} {digest}", label)


def _strategy(name: str, folder: Path) -> tuple[str | Strategy, str]:
    """A name, or the strategy in a file; and the text that identifies it."""
    if Path(name).suffix.lower() in MATRICES:
        return renamed(read_strategy(folder / name), name), _digest(folder / name)
    listed = {*DESIGNED, *(entry.name for entry in BASELINES), "tree", "weighted-tree"}
    if name.partition(":")[0] not in listed:
        baseline(name, as_workload("total:1"), others=DESIGNED)  # lists the available names
    return name, name


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def listed(value: Any) -> list[Any]:
    """A list as it is, another value as a list of one, nothing as an empty one."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def texts(key: str, value: Any) -> list[str]:
    """The texts under a key.

    Raises:
        InvalidInputError: there is something else among them.
    """
    values = listed(value)
    for text in values:
        if not isinstance(text, str):
            example = EXAMPLES[key]
            raise InvalidInputError(f'{key} must be texts such as "{example}", got {text!r}')
    return values


def number(key: str, value: Any) -> float:
    """A number, also "inf".

    Raises:
        InvalidInputError: it is not a number.
    """
    if isinstance(value, str) and value == "inf":
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInputError(f"{key} must be a number, got {value!r}")
    return float(value)


def choice(key: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> Any:
    """The value under a key, the first of the allowed ones by default.

    Raises:
        InvalidInputError: it is not allowed.
    """
    value = table.get(key, allowed[0])
    if value not in allowed:
        raise InvalidInputError(f"{key} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def sizes(value: Any) -> list[int]:
    """The numbers that stand for {n}: a list, or `count` of them with equal ratios.

    Raises:
        InvalidInputError: they are not integers, or the keys are others.
    """
    if isinstance(value, Mapping):
        if set(value) != {"from", "to", "count"}:
            raise InvalidInputError(
                "n must be whole numbers, or { from = 10, to = 1000, count = 7 }, got the keys "
                + ", ".join(value)
            )
        first, last, count = (whole(f"{key} of n", value[key]) for key in ("from", "to", "count"))
        if last < first:
            raise InvalidInputError(f"n goes from {first} to {last}: from must not be above to")
        if count > MOST_ROWS:
            raise InvalidInputError(f"count of n must be at most {MOST_ROWS}, got {count}")
        return sorted({round(size) for size in np.geomspace(first, last, count)})
    return [whole("n", size) for size in listed(value)]


def demands_of(value: Any, relation: Neighbours, folder: Path) -> list[Demand]:
    """The guarantees that texts describe; one without a guarantee if no texts are given.

    Args:
        value: a text, or a list of texts.
        relation: of those that do not name one.
        folder: searched for files of alpha.

    Raises:
        FileError: a file that cannot be read.
        InvalidInputError: no text of a guarantee.
    """
    return [_demand(text, relation, folder) for text in texts("guarantees", value)] or [
        Demand(None)
    ]


def _demand(text: str, relation: Neighbours, folder: Path) -> Demand:
    source = ""

    def read_alpha(name: str, _confidence: float | None) -> tuple[float, ...]:
        nonlocal source
        source = name
        return tuple(read_prior(folder / name, name="alpha").tolist())

    guarantee = parse_guarantee(text, neighbours=relation.value, read_alpha=read_alpha)
    return Demand(guarantee, source)
