"""A study: workloads x sizes x p x guarantees x strategies, as a TOML file says it.

    workloads = ["prefix:{n}", "parity:6,3", "workload.npy"]
    n = [10, 100, 1000]               # or { from = 10, to = 1000, count = 7 }
    p = [2, 4, inf]
    strategies = ["least-norm", "tree", "mine.npz"]

    weights = ["none", "w.csv"]       # of queries
    participation = ["once", "16,every=64"]

    [[guarantees]]
    epsilon = [0.1, 1]
    delta = 1e-6

    [[guarantees]]
    epsilon = 0.5
    alpha = [0.001, "alpha.csv"]      # one for all cells, or one for each

Values may be lists wherever they are, and lists mean every combination. Files are looked for beside
the study.
"""

from __future__ import annotations

import hashlib
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from pmldesign.arguments import exponent, whole
from pmldesign.comparison.tasks import DESIGNED
from pmldesign.comparison.units import Settings, StudiedWorkload, Unit
from pmldesign.comparison.values import Demand, choice, demands_of, listed, number, sizes, texts
from pmldesign.designs.options import DesignOptions
from pmldesign.errors import FileError, InvalidInputError, PmldesignError
from pmldesign.files import read_prior, read_strategy, read_workload
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import BASELINES, Strategy, baseline
from pmldesign.strategies.participation.schema import AnyParticipation, as_participation
from pmldesign.workloads import Workload, as_workload, expand_family
from pmldesign.workloads.weighting import weighted

KEYS = (
    "workloads", "n", "p", "strategies", "guarantees", "noise", "neighbours", "search_time",
    "weights", "participation",
)  # fmt: skip
LIMITS = ("rel_gap", "time_limit", "max_steps", "buffers")
ONCE, UNWEIGHTED = "once", "none"
MATRICES = (".npy", ".npz", ".csv", ".mtx")


@dataclass(frozen=True, slots=True)
class Study:
    """What is to be computed.

    Attributes:
        workloads: names, and workloads of files, with or without weights, with what tells them.
        participations: how often a person takes part; None for once.
        values: the p.
        guarantees: what the noise is calibrated to.
        strategies: names, and strategies of files with their fingerprints.
        settings: what is the same for all rows.
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
    """A study from a TOML file, or from what such a file would hold.

    Raises:
        FileError: the file cannot be read, or is no TOML.
        InvalidInputError: a key that is not known, or a value that the study cannot have.
    """
    if isinstance(source, Mapping):
        return _study(dict(source), Path())
    path = Path(source)
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
    names = [text for name in texts("workloads", table) for text in _sized(name, numbers)]
    families = dict.fromkeys(text for name in names for text in expand_family(name))
    weights = dict.fromkeys(texts("weights", table)) or [UNWEIGHTED]
    often = dict.fromkeys(texts("participation", table)) or [ONCE]
    limits: dict[str, Any] = {key: number(key, table[key]) for key in LIMITS[:2] if key in table}
    limits |= {key: whole(key, table[key]) for key in LIMITS[2:] if key in table}
    settings = Settings(
        noise=choice("noise", table, ("auto", "gaussian", "laplace", "cube")),
        search_time=number("search_time", table["search_time"]) if "search_time" in table else None,
        options=DesignOptions(
            neighbours=Neighbours(choice("neighbours", table, ("add-remove", "replace"))), **limits
        ),
    )
    return Study(
        workloads=tuple(_workload(*pair, folder) for pair in product(families, weights)),
        participations=tuple(None if text == ONCE else as_participation(text) for text in often),
        values=tuple(dict.fromkeys(exponent(number("p", p)) for p in listed(table.get("p", 2)))),
        guarantees=tuple(demands_of(table.get("guarantees"), settings.options.neighbours, folder)),
        strategies=tuple(
            _strategy(name, folder) for name in dict.fromkeys(texts("strategies", table))
        ),
        settings=settings,
    )


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
    """A name, or the strategy in a file; and what tells it from others."""
    if Path(name).suffix.lower() in MATRICES:
        return read_strategy(folder / name).renamed(name), _digest(folder / name)
    listed = {*DESIGNED, *(entry.name for entry in BASELINES), "tree", "weighted-tree"}
    if name.partition(":")[0] not in listed:
        baseline(name, as_workload("total:1"), others=DESIGNED)  # says what there is
    return name, name


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
