"""The guarantees of a study: tables of numbers, whose lists mean every combination.

epsilon [delta] [alpha [failure]]     differential privacy, or PML
rho | mu | order and epsilon          zCDP, Gaussian DP, Renyi DP
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from pmldesign.comparison.values import listed, number
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee, from_json
from pmldesign.privacy.neighbours import Neighbours

NUMBERS = ("epsilon", "delta", "alpha", "rho", "mu", "order")
KEYS = (*NUMBERS, "neighbours", "failure")
CURRENCIES = {"rho": "zcdp", "mu": "gaussian-dp", "order": "renyi"}
"""The number that makes a guarantee one of another currency, and what that is called in JSON."""


def guarantees_of(value: Any, relation: Neighbours) -> Iterator[Guarantee | None]:
    """The guarantees that tables ask for; None alone where there are none.

    Args:
        value: a table, or a list of tables.
        relation: of those that do not say it, but for PML.

    Raises:
        InvalidInputError: a key that is not known, or numbers that are no guarantee.
    """
    tables = listed(value)
    if not tables:
        yield None
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
            yield _guarantee(dict(zip(present, values, strict=True)), relation)


def _guarantee(table: dict[str, Any], relation: Neighbours) -> Guarantee:
    table |= {key: number(f"{key} of a guarantee", table[key]) for key in NUMBERS if key in table}
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
