"""Why a value has no cell, and which key its owner probably means.

For the eyes of the owner of the data only: messages name values of records.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from difflib import get_close_matches

from pmldesign.arguments import as_number
from pmldesign.releases.people.attribute import Attribute
from pmldesign.releases.people.numbers import Number
from pmldesign.releases.people.values import LONGEST_NUMBER, NUMBER, is_time

LONGEST = 40
"""Characters of a value that a message quotes."""
MOST_KEYS = 2000
"""Keys that are searched for a similar one: `difflib` compares them one by one."""
FORMS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("without the blanks around it", str.strip),
    ("without b and the marks around it", lambda t: re.sub(r"^b(['\"])(.*)\1$", r"\2", t)),
    ("without the marks around it", lambda t: t.strip("'\"")),
    ("in the other case", str.casefold),
    ("with other leading zeros", lambda t: re.sub("^0+(?=[0-9])", "", t)),
    ("with a decimal point", lambda t: t.replace(",", ".")),
    ("as the same number", lambda t: "" if (n := _number(t)) is None else str(n)),
    ("in another Unicode form", lambda t: unicodedata.normalize("NFKC", t)),
    ("without several of these differences", lambda t: _folded(t)),
)
"""What may be different between a value and a key; the same is done to both."""


def problem(attribute: Attribute, text: str | None) -> str:
    """Why a value has no cell, and the key similar to it.

    Args:
        attribute: of the schema.
        text: of the value; None or empty if it is missing.
    """
    if not text:
        return "there is no value"
    hint, said = similar(attribute, text), repr(text[:LONGEST])
    if attribute.cuts is None and not isinstance(attribute, Number):
        keys = ", ".join(attribute.labels[:6]) + (" ..." if len(attribute.labels) > 6 else "")
        why = f"{said} is not a key; keys are {keys}"
    elif attribute.dated and not is_time(text):
        why = f"{said} is not a date such as 2020-01-31, or a time without an offset from UTC"
    elif not attribute.dated and _number(text) is None:
        why = f"{said} is not a number"
    else:
        why = f"{said} is outside the bins {attribute.labels[0]} to {_last_bin(attribute)}"
    return f"{why} ({hint})" if hint else why


def similar(attribute: Attribute, text: str) -> str:
    """The key that a value without a cell is similar to, and how; empty without a similar key."""
    if attribute.dated:
        return ""
    if isinstance(attribute, Number) or attribute.cuts is not None:
        return _similar_number(attribute, text)
    keys = {attribute.key(label): label for label in attribute.labels}
    for how, form in FORMS:
        formed = form(text)
        found = [label for key, label in keys.items() if formed in (form(key), form(label))]
        if found and formed:
            return f"similar to {found[0]!r} {how}"
    if len(keys) <= MOST_KEYS:
        close = get_close_matches(text, [*keys], n=1, cutoff=0.8)
        return f"similar to {keys[close[0]]!r}" if close else ""
    return ""


def _similar_number(attribute: Attribute, text: str) -> str:
    number = _number(text)
    if number is None:
        pointed = re.sub(r"^b?['\"]?\s*|\s*['\"]?$", "", text.replace(",", "."))
        return f"{pointed} with a decimal point is one" if _number(pointed) is not None else ""
    if attribute.cuts is None:
        return ""
    last, end = _last_bin(attribute), attribute.cuts[-1]
    if not isinstance(end, float) or number < end:
        return "below the first bin"
    if number == end:
        return f"the end of the last bin {last}, which does not contain it"
    return f"above the last bin {last}; cuts that end with null have no upper end"


def _last_bin(attribute: Attribute) -> str:
    return attribute.labels[attribute.bin_count - 1]


def _number(text: str) -> float | None:
    plain = re.fullmatch(NUMBER[1:-1], text) and len(text) <= LONGEST_NUMBER
    number = as_number(text.strip(" ")) if plain else None
    return number if number is not None and math.isfinite(number) else None


def _folded(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).strip().strip("'\"").strip().casefold()
    return re.sub("^0+(?=[0-9])", "", text)
