"""The values of a study, as TOML has them, checked; and its guarantees.

A guarantee is a table of numbers, whose lists mean every combination:

epsilon [delta] [alpha [failure]]     differential privacy, or PML
rho | mu | order and epsilon          zCDP, Gaussian DP, Renyi DP

An alpha is a number, or the name of a file with one for each cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.arguments import whole
from pmldesign.comparison.rows import PARAMETERS
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_prior
from pmldesign.privacy.guarantees import Guarantee, from_json
from pmldesign.privacy.neighbours import Neighbours

KEYS = (*PARAMETERS, "neighbours", "failure")
CURRENCIES = {"rho": "zcdp", "mu": "gaussian-dp", "order": "renyi"}
"""The number that makes a guarantee one of another currency, and what that is called in JSON."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A guarantee that a study asks for.

    Attributes:
        guarantee: None for a scale equal to the sensitivity.
        alpha_file: what the file of its alpha is called; empty without.
    """

    guarantee: Guarantee | None
    alpha_file: str = ""


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
            if key not in KEYS:
                raise InvalidInputError(
                    f"unknown key {key!r} of a guarantee; known are {', '.join(KEYS)}"
                )
        present = [key for key in KEYS if listed(table.get(key))]
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
