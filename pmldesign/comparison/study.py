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

A guarantee is a table of numbers, whose lists mean every combination:

epsilon [delta] [alpha [failure]]     differential privacy, or PML
rho | mu | order and epsilon          zCDP, Gaussian DP, Renyi DP

An alpha is a number, or the name of a file with one for each cell.
"""

from __future__ import annotations

import hashlib
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.arguments import exponent, whole
from pmldesign.comparison.rows import PARAMETERS
from pmldesign.comparison.tasks import DESIGNED
from pmldesign.comparison.units import Demand, Settings, StudiedWorkload, Unit
from pmldesign.designs.options import DesignOptions
from pmldesign.errors import FileError, InvalidInputError, PmldesignError
from pmldesign.files import as_path, read_prior, read_strategy, read_workload
from pmldesign.privacy.guarantees import Guarantee, from_json
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
OF_GUARANTEES = (*PARAMETERS, "neighbours", "failure")
CURRENCIES = {"rho": "zcdp", "mu": "gaussian-dp", "order": "renyi"}
"""The number that makes a guarantee one of another currency, and what that is called in JSON."""


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


def listed(value: Any) -> list[Any]:
    """A list as it is, another value as a list of one, nothing as an empty one."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def texts(key: str, table: Mapping[str, Any]) -> list[str]:
    """The texts under a key.

    Raises:
        InvalidInputError: there is something else among them.
    """
    values = listed(table.get(key))
    for text in values:
        if not isinstance(text, str):
            raise InvalidInputError(f"{key} must be texts, got {text!r}")
    return values


def number(key: str, value: Any) -> float:
    """A number, also "inf".

    Raises:
        InvalidInputError: it is none.
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
        InvalidInputError: they are no whole numbers, or the keys are others.
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
        return sorted({round(size) for size in np.geomspace(first, last, count)})
    return [whole("n", size) for size in listed(value)]


def demands_of(value: Any, relation: Neighbours, folder: Path) -> Iterator[Demand]:
    """The guarantees that tables ask for; none of any kind where there are no tables.

    Args:
        value: a table, or a list of tables.
        relation: of those that do not say it, but for PML.
        folder: where the files of alpha are looked for.

    Raises:
        FileError: a file that cannot be read.
        InvalidInputError: a key that is not known, or numbers that are no guarantee.
    """
    tables = listed(value)
    if not tables:
        yield Demand(None)
    for table in tables:
        if not isinstance(table, Mapping):
            raise InvalidInputError("guarantees are tables: write [[guarantees]] and epsilon = 1")
        for key in table:
            if key not in OF_GUARANTEES:
                raise InvalidInputError(
                    f"unknown key {key!r} of a guarantee; known are {', '.join(OF_GUARANTEES)}"
                )
        present = [key for key in OF_GUARANTEES if listed(table.get(key))]
        for values in product(*(listed(table[key]) for key in present)):
            yield _demand(dict(zip(present, values, strict=True)), relation, folder)


def _demand(table: dict[str, Any], relation: Neighbours, folder: Path) -> Demand:
    alpha = table.get("alpha")
    if not isinstance(alpha, str):
        return Demand(_guarantee(table, relation))
    limits = read_prior(folder / alpha, name="alpha").tolist()
    return Demand(_guarantee(table | {"alpha": limits}, relation), alpha)


def _guarantee(table: dict[str, Any], relation: Neighbours) -> Guarantee:
    given = [key for key in PARAMETERS if key in table and not isinstance(table[key], list)]
    table |= {key: number(f"{key} of a guarantee", table[key]) for key in given}
    currencies = [key for key in CURRENCIES if key in table]
    if currencies:
        return _currency(currencies, {"neighbours": relation.value} | table)
    if "epsilon" not in table:
        raise InvalidInputError(
            "a guarantee needs epsilon, rho, mu, or an order with its epsilon; add for example"
            " epsilon = 1"
        )
    return _with_epsilon(table, relation)


def _currency(currencies: list[str], table: dict[str, Any]) -> Guarantee:
    """zCDP, Gaussian DP or Renyi DP."""
    (first, *others) = currencies
    needed = {"neighbours", first} | ({"epsilon"} if first == "order" else set())
    strange = others or sorted(set(table) - needed)
    missing = sorted(needed - set(table))
    if strange or missing:
        wrong = f"does not go with {strange[0]}" if strange else f"needs {missing[0]}"
        raise InvalidInputError(f"a guarantee of {first} {wrong}: each is a table of its own")
    return from_json({"kind": CURRENCIES[first]} | table)


def _with_epsilon(table: dict[str, Any], relation: Neighbours) -> Guarantee:
    """Differential privacy, or PML."""
    pml = "alpha" in table
    loose = pml and "delta" in table
    if "failure" in table and not loose:
        raise InvalidInputError("failure is for PML with a delta: give alpha and delta too")
    if pml and table.get("neighbours") == "add-remove":
        raise InvalidInputError("PML (alpha) speaks of replace neighbours: leave neighbours out")
    numbers = {
        "kind": "pml" if pml else "dp",
        "delta": None,
        "alpha": None,
        "neighbours": "replace" if pml else relation.value,
        "failure": "envelope" if loose else None,
    }
    return from_json(numbers | table)
