"""A study: workloads x sizes x p x guarantees x strategies, as a TOML file says it.

    workloads = ["prefix:{n}", "parity:6,3", "workload.npy"]
    n = [10, 100, 1000]               # or { from = 10, to = 1000, count = 7 }
    p = [2, 4, inf]
    strategies = ["least-norm", "tree", "mine.npz"]

    [[guarantees]]
    epsilon = [0.1, 1]
    delta = 1e-6

Numbers may be lists wherever they are, and lists mean every combination. Files are looked for
beside the study.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.arguments import exponent
from pmldesign.comparison.tasks import DESIGNED
from pmldesign.comparison.units import Settings, Unit
from pmldesign.designs.options import DesignOptions
from pmldesign.errors import FileError, InvalidInputError, PmldesignError
from pmldesign.files import read_strategy, read_workload
from pmldesign.privacy.guarantees import Guarantee, from_json
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import BASELINES, Strategy, baseline
from pmldesign.workloads import Workload, as_workload, expand_family

KEYS = (
    "workloads", "n", "p", "strategies", "guarantees", "noise", "neighbours", "search_time"
)  # fmt: skip
LIMITS = ("rel_gap", "time_limit", "max_steps", "buffers")
GUARANTEE_KEYS = ("epsilon", "delta", "alpha", "neighbours", "failure")
MATRICES = (".npy", ".npz", ".csv", ".mtx")


@dataclass(frozen=True, slots=True)
class Study:
    """What is to be computed.

    Attributes:
        workloads: names, and workloads of files with their fingerprints.
        values: the p.
        guarantees: None for a scale equal to the sensitivity.
        strategies: names, and strategies of files with their fingerprints.
        settings: what is the same for all rows.
    """

    workloads: tuple[tuple[str | Workload, str], ...]
    values: tuple[float, ...]
    guarantees: tuple[Guarantee | None, ...]
    strategies: tuple[tuple[str | Strategy, str], ...]
    settings: Settings

    @property
    def size(self) -> int:
        """How many rows it has."""
        return len(self.workloads) * len(self.values) * len(self.guarantees) * len(self.strategies)

    def units(self) -> list[Unit]:
        """The rows that share a norm: those of a workload, a p and a relation of neighbours."""
        by_relation: dict[Neighbours, list[Guarantee | None]] = {}
        for guarantee in self.guarantees:
            relation = (
                self.settings.options.neighbours if guarantee is None else guarantee.neighbours
            )
            by_relation.setdefault(relation, []).append(guarantee)
        units = (
            Unit(workload, p, tuple(guarantees), self.strategies, self.settings)
            for workload, guarantees, p in product(
                self.workloads, by_relation.values(), self.values
            )
        )
        return [*{unit.key: unit for unit in units}.values()]


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
        if not _listed(table.get(key)):
            raise InvalidInputError(f'{key} must be a list of names, such as ["prefix:64"]')
    sizes = _sizes(table["n"]) if "n" in table else []
    names = [text for name in _texts("workloads", table) for text in _sized(name, sizes)]
    families = [text for name in names for text in expand_family(name)]
    limits: dict[str, Any] = {key: _number(key, table[key]) for key in LIMITS[:2] if key in table}
    limits |= {key: _whole(key, table[key]) for key in LIMITS[2:] if key in table}
    settings = Settings(
        noise=_choice("noise", table, ("auto", "gaussian", "laplace")),
        search_time=_number("search_time", table["search_time"])
        if "search_time" in table
        else None,
        options=DesignOptions(
            neighbours=Neighbours(_choice("neighbours", table, ("add-remove", "replace"))), **limits
        ),
    )
    return Study(
        workloads=tuple(_workload(name, folder) for name in dict.fromkeys(families)),
        values=tuple(dict.fromkeys(exponent(_number("p", p)) for p in _listed(table.get("p", 2)))),
        guarantees=tuple(_guarantees(table.get("guarantees", []), settings)),
        strategies=tuple(
            _strategy(name, folder) for name in dict.fromkeys(_texts("strategies", table))
        ),
        settings=settings,
    )


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _texts(key: str, table: Mapping[str, Any]) -> list[str]:
    for text in _listed(table[key]):
        if not isinstance(text, str):
            raise InvalidInputError(f"{key} must be texts, got {text!r}")
    return _listed(table[key])


def _number(key: str, value: Any) -> float:
    if isinstance(value, str) and value == "inf":
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInputError(f"{key} must be a number, got {value!r}")
    return float(value)


def _choice(key: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> Any:
    value = table.get(key, allowed[0])
    if value not in allowed:
        raise InvalidInputError(f"{key} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def _sizes(value: Any) -> list[int]:
    """The numbers that stand for {n}: a list, or `count` of them with equal ratios."""
    if isinstance(value, Mapping):
        if set(value) != {"from", "to", "count"}:
            raise InvalidInputError(
                "n must be whole numbers, or { from = 10, to = 1000, count = 7 }, got the keys "
                + ", ".join(value)
            )
        first, last, count = (_whole(f"{key} of n", value[key]) for key in ("from", "to", "count"))
        if last < first:
            raise InvalidInputError(f"n goes from {first} to {last}: from must not be above to")
        return sorted({round(size) for size in np.geomspace(first, last, count)})
    return [_whole("n", size) for size in _listed(value)]


def _whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{key} must be a whole number of at least 1, got {value!r}")
    return value


def _sized(name: str, sizes: list[int]) -> list[str]:
    if "{n}" not in name:
        return [name]
    if not sizes:
        raise InvalidInputError(f"workload {name!r} has an n, but the study gives none: add n = 64")
    return [name.replace("{n}", str(size)) for size in sizes]


def _guarantees(value: Any, settings: Settings) -> Iterator[Guarantee | None]:
    tables = _listed(value)
    if not tables:
        yield None
    for table in tables:
        if not isinstance(table, Mapping):
            raise InvalidInputError("guarantees are tables: write [[guarantees]] and epsilon = 1")
        for key in table:
            if key not in GUARANTEE_KEYS:
                allowed = ", ".join(GUARANTEE_KEYS)
                raise InvalidInputError(f"unknown key {key!r} of a guarantee; known are {allowed}")
        if "epsilon" not in table:
            raise InvalidInputError("a guarantee needs epsilon; add for example epsilon = 1")
        columns = [_listed(table[key]) or [None] if key in table else [None] for key in
                   GUARANTEE_KEYS]  # fmt: skip
        for values in product(*columns):
            yield _guarantee(dict(zip(GUARANTEE_KEYS, values, strict=True)), settings)


def _guarantee(numbers: dict[str, Any], settings: Settings) -> Guarantee:
    for key in ("epsilon", "delta", "alpha"):
        if numbers[key] is not None:
            numbers[key] = _number(f"{key} of a guarantee", numbers[key])
    pml = numbers["alpha"] is not None
    loose = pml and numbers["delta"] is not None
    if numbers["failure"] is not None and not loose:
        raise InvalidInputError("failure is for PML with a delta: give alpha and delta too")
    if pml and numbers["neighbours"] == "add-remove":
        raise InvalidInputError("PML (alpha) speaks of replace neighbours: leave neighbours out")
    fallback = "replace" if pml else settings.options.neighbours.value
    return from_json(
        numbers
        | {
            "kind": "pml" if pml else "dp",
            "neighbours": numbers["neighbours"] or fallback,
            "failure": (numbers["failure"] or "envelope") if loose else None,
        }
    )


def _workload(name: str, folder: Path) -> tuple[str | Workload, str]:
    """A name, which every worker reads for itself, or the matrix of a file; and what tells it."""
    if Path(name).suffix.lower() in MATRICES:
        return read_workload(folder / name), _digest(folder / name)
    try:
        as_workload(name)
    except PmldesignError as error:
        raise InvalidInputError(str(error)) from None
    return name, name


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
