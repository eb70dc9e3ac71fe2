"""The lines of a ledger (`ledger`): JSON, first the budget, then a line for each release.

Costs are exact fractions without a sign, so that nothing is paid back. A last line that was not
written to its end, a key that comes twice and a number that is none refuse everything until
somebody looks.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

from pmldesign.errors import FileError
from pmldesign.release.costs.budget import Cost
from pmldesign.release.costs.plan import Plan
from pmldesign.release.costs.stores import Store
from pmldesign.verify.verification import once

FORMAT = 2
LIMITS = ("epsilon", "delta", "pure")
HEADS = {1: {"ledger", "data", "unit", *LIMITS}, 2: {"ledger", "people", "key", "unit", *LIMITS}}
"""Keys of the first line by format; a plan adds one. The first format knew the path of the data."""
ENTRY, BESIDE = {"release", "pure", "squared_ratio"}, {"delta", "planned", "date", "data"}
"""Keys of each line of a release, and those that may be missing."""
FRACTION = re.compile(r"[0-9]{1,4000}(/0*[1-9][0-9]{0,3999})?")


def entry_of(release: str, cost: Cost) -> dict[str, Any]:
    """The line of a release."""
    more: dict[str, Any] = {} if cost.planned is None else {"planned": cost.planned}
    more |= {"delta": str(cost.delta)} if cost.delta else {}
    costs = {"pure": str(cost.pure), "squared_ratio": str(cost.squared_ratio)}
    return {"release": release, **costs, **more}


def total_of(releases: list[dict[str, Any]]) -> Cost:
    """What releases cost together; ValueError or KeyError for lines that do not say."""
    pure = sum((_fraction(entry["pure"]) for entry in releases), Fraction(0))
    ratio = sum((_fraction(entry["squared_ratio"]) for entry in releases), Fraction(0))
    delta = sum((_fraction(entry.get("delta", "0")) for entry in releases), Fraction(0))
    float(pure), float(ratio), float(delta)  # OverflowError where no release can have cost so much
    return Cost(pure, ratio, delta)


def _fraction(text: str) -> Fraction:
    """A cost as `entry_of` writes it."""
    if not FRACTION.fullmatch(text):
        raise ValueError
    return Fraction(text)


def numbers_of(releases: list[dict[str, Any]], plan: Plan | None) -> list[int]:
    """Which of the planned releases were made, each once."""
    if plan is None:
        if any("planned" in entry for entry in releases):
            raise ValueError
        return []
    numbers = [entry["planned"] for entry in releases]
    foreseen = range(len(plan.releases))
    if any(type(number) is not int or number not in foreseen for number in numbers):
        raise ValueError
    if len(set(numbers)) < len(numbers):
        raise ValueError
    return numbers


def read_lines(store: Store) -> list[dict[str, Any]]:
    """The lines of a ledger; each key once, and every number finite."""
    try:
        entries = [json.loads(line, object_pairs_hook=once) for line in store.read()]
        if not entries:
            return []
        head, *releases = entries
        keys = HEADS[head["ledger"]]
        if not keys <= {*head} <= {*keys, "plan"}:
            raise ValueError
        if not all({*ENTRY} <= {*entry} <= ENTRY | BESIDE for entry in releases):
            raise ValueError
        texts = [head[key] for key in ("people", "data", "key", "unit") if key in head]
        texts += [
            entry[key] for entry in releases for key in ("release", "date", "data") if key in entry
        ]
        "".join(texts)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged(store) from None
    return entries


def append_line(store: Store, place: int, entry: dict[str, Any]) -> bool:
    """Write a line at a place; False where another one has come in between."""
    return store.append(place, json.dumps(entry).encode())


def damaged(store: Store) -> FileError:
    """Why nothing is released."""
    return FileError(
        f"the ledger {store.name!r} is damaged, perhaps its last line was not written to the end; "
        "what was spent is not known, so nothing is released"
    )
