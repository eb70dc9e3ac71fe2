"""Workloads from text: "prefix:64", "random-range:8,8,seed=1", "prefix:16*histogram:5".

    workload = part { "+" part }
    part     = [ weight "*" ] factor { "*" factor }
    factor   = name [ ":" argument { "," argument } ]
    argument = size | option "=" whole number
    size     = ( whole number | name number { "/" number } [ "/" option "=" whole number ] )
               [ "^" whole number ], or a decimal number for a rate or a value
    weight   = decimal number [ "e" [ "-" ] whole number ]

A weight multiplies the queries of a part, and so their errors: "2*prefix:64+histogram:64". No name
begins with a digit.

If a name takes any number of sizes, a size such as "10^100" stands for 100 sizes of 10, and one
such as "prefix85" or "window64/7" for an attribute with the queries prefix:85 or window:64,7.
Blanks around every part are allowed. A family such as "prefix:16..64" is short for the texts with
the powers of two from 16 to 64 in its place (`expand_family`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import NoReturn

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.display import count_text
from pmldesign.workloads.named import NAMES, NamedWorkload
from pmldesign.workloads.queries import MAX_QUERIES
from pmldesign.workloads.terms.constructors import (
    MAX_JOINED,
    KroneckerWorkload,
    UnionWorkload,
    on_common_attributes,
)
from pmldesign.workloads.terms.over import as_terms
from pmldesign.workloads.terms.workload import TermsWorkload
from pmldesign.workloads.weighting import weighted
from pmldesign_solvers.limits import JOINT_CELLS, WRITTEN_CELLS

MAX_PRODUCT_CELLS = 2**24
"""Cells of a product, whose matrix is not formed: beyond, one histogram needs over 128 MiB."""

MAX_SIZES = 10_000
"""Maximum number of repetitions of one size."""


WEIGHT = re.compile(r"\s*(\d{1,30}\.?\d{0,30}|\.\d{1,30})(e-?\d{1,3})?\s*", re.ASCII)
"""Of a part of a union."""
FAMILY = re.compile(r"(?<=[:,])\s*(\d+)\s*\.\.\s*(\d+)\s*(?=[,*+]|$)", re.ASCII)
"""A size of a family."""


def starts_with_name(text: str) -> bool:
    """Whether a text begins with a known name, after a weight or not: it is then no path."""
    head, star, rest = text.partition("*")
    named = rest if star and WEIGHT.fullmatch(head) else text
    name = named.partition("*")[0].partition(":")[0].strip()
    return any(name == entry.name for entry in NAMES)


def parse_workload(
    text: str, *, read: Callable[[str], Workload | None] = lambda _: None
) -> Workload:
    """The workload that a text names.

    Args:
        text: a name with its sizes as in `NAMES`, several joined by "*" (every
            combination of their queries), or several of those joined by "+" (all their queries),
            each of these with a weight in front if its errors count more or less ("2*prefix:64").
        read: makes the workload of a factor that is not a name; returns None for a name.

    Raises:
        InvalidInputError: an unknown name, wrong sizes or options, parts of a union on different
            cells, or a workload too large: a factor with over 2^16 cells or 2^24 queries, a product
            with over 2^24 cells, a union with over 2^24 queries.
    """
    if not text.strip():
        raise InvalidInputError("the workload has no name; try prefix:64")
    # equal factors are one object, solved once
    parse_factor = cache(lambda factor: read(factor) or _parse_factor(factor))
    weights, products = zip(*(weight_of(part, text) for part in text.split("+")), strict=True)
    parts = [_parse_product(part, text, parse_factor) for part in products]
    if len(parts) == 1 and "*" in products[0]:
        _check_cells(text, parts[0].shape[1])
    if any(weight != 1 for weight in weights):
        return _weighted_union(parts, weights, text)
    return union_of(parts, text)


def union_of(parts: Sequence[Workload], text: str) -> Workload:
    """All queries of the parts, products or named ones, in the form that keeps their structure.

    Args:
        parts: on the same cells.
        text: the input of the user.

    Raises:
        InvalidInputError: too many cells or queries, as `parse_workload`.
    """
    if len(parts) == 1:
        return parts[0]
    queries, cells = sum(part.shape[0] for part in parts), parts[0].shape[1]
    several = len({as_terms(part).domain for part in parts}) > 1
    union = on_common_attributes(parts) if several and cells > WRITTEN_CELLS else None
    if union is None or not (union.crossed or _is_small(union)):
        union = UnionWorkload(parts)
    once = union.crossed and not union.repeats
    tables = len(union.domain) > 1 and (once or _is_small(union))
    if cells > MAX_PRODUCT_CELLS and not tables:
        raise InvalidInputError(
            f"{_shown(text)} has {count_text(cells)} cells; a union of more than"
            f" {MAX_PRODUCT_CELLS} consists of tables over the same attributes, each asked for"
            f" once, or of up to {JOINT_CELLS} cells; neighbours that are asked about together have"
            f" up to {MAX_JOINED} cells"
        )
    if queries > MAX_QUERIES and not tables:
        raise InvalidInputError(
            f"{_shown(text)} has {count_text(queries)} queries; a union may have up to "
            f"{MAX_QUERIES}, for a vector of answers must fit into memory"
        )
    return union


def _is_small(workload: TermsWorkload) -> bool:
    """Whether every table of a term has few cells."""
    return max(term.shape[1] for term in workload.terms) <= JOINT_CELLS


def _parse_product(product: str, text: str, parse_factor: Callable[[str], Workload]) -> Workload:
    parts = [part.strip() for part in product.split("*")]
    if "" in parts:
        problem = "an empty part; write a union as" if parts == [""] else "an empty factor; write"
        example = "total:8+prefix:8" if parts == [""] else "a product as prefix:16*histogram:5"
        raise InvalidInputError(f"{_shown(text)} has {problem} {example}")
    factors = [parse_factor(part) for part in parts]
    if len(factors) == 1:
        return factors[0]
    return KroneckerWorkload(factors)


def weight_of(part: str, text: str) -> tuple[float, str]:
    """The weight at the start of a part (1 by default), and the rest."""
    head, star, rest = part.partition("*")
    if not star or not re.match(r"\s*\.?\d", head):
        return 1.0, part
    if WEIGHT.fullmatch(head) is None:
        raise InvalidInputError(
            f"{_shown(text)}: the weight {_shown(head.strip())} is no decimal number such as 2, "
            "0.5 or 1e-3"
        )
    return float(head), rest


def _weighted_union(parts: Sequence[Workload], weights: Sequence[float], text: str) -> Workload:
    """The queries of the parts, each part times its weight."""
    workload = union_of(
        [
            weighted(part, weight, name=f"{weight:g}*{part.name}")
            for part, weight in zip(parts, weights, strict=True)
        ],
        text,
    )
    workload.unweighted = union_of(parts, text)
    return workload


def _check_cells(text: str, cells: int) -> None:
    if cells > MAX_PRODUCT_CELLS:
        raise InvalidInputError(
            f"{_shown(text)} has {count_text(cells)} cells; it may have up to {MAX_PRODUCT_CELLS}, "
            "for a histogram must fit into memory"
        )


def expand_family(text: str) -> list[str]:
    """The texts that a family stands for; any other text stands for itself.

    Args:
        text: with at most one size written as FROM..TO, both of them powers of two.

    Raises:
        InvalidInputError: the ends are not powers of two in increasing order, or there are several
            such sizes.
    """
    ranges = list(FAMILY.finditer(text))
    if not ranges:
        return [text]
    if len(ranges) > 1:
        raise InvalidInputError(
            f"workload {_shown(text)} has {len(ranges)} sizes written as FROM..TO; a family has one"
        )
    first, last = (int(end) if len(end) < 20 else 0 for end in ranges[0].groups())
    if not (1 <= first <= last and first.bit_count() == last.bit_count() == 1):
        raise InvalidInputError(
            f"workload {_shown(text)}: FROM..TO goes through powers of two, and both ends must be "
            "powers of two in increasing order; write for example prefix:16..1024"
        )
    before, after = text[: ranges[0].start()], text[ranges[0].end() :]
    powers = range(first.bit_length() - 1, last.bit_length())
    return [f"{before}{2**power}{after}" for power in powers]


def _parse_factor(text: str) -> Workload:
    name, colon, tail = (part.strip() for part in text.partition(":"))
    entries = {entry.name: entry for entry in NAMES}
    if name not in entries:
        nearest = get_close_matches(name.lower(), entries, n=1)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        if name.lower().endswith((".npy", ".npz", ".csv", ".mtx")):
            hint = f"pmldesign.workload({name!r}) reads a file; "
        raise InvalidInputError(
            f"unknown workload {_shown(name)}; {hint}known are "
            + ", ".join(entry.sizes for entry in entries.values())
            + "; names of attributes need `schema`"
        )
    entry = entries[name]
    if entry.file:
        return entry.build(tail)
    sizes: list[int | float | Workload] = []
    options: dict[str, int | str] = {}
    for argument in (part.strip() for part in tail.split(",")) if colon else ():
        key, equals, value = (part.strip() for part in argument.partition("="))
        if "/" in key:  # random-range20/12/seed=1 is an attribute
            equals = ""
        if not equals and options and "..." in entry.arguments:  # ways=1,2 is not a list
            _refuse(text, entry, f"sizes come before options, got {_shown(argument)} after them")
        elif not equals:
            sizes += _sizes(argument, text, entry, len(sizes))
        elif key not in entry.options or key in options:
            allowed = ", ".join(entry.options) or "none"
            problem = "repeated" if key in options else "unknown"
            _refuse(text, entry, f"{problem} option {_shown(key)} (allowed: {allowed})")
        else:
            options[key] = value if value in entry.words else _whole(value, text, entry)
    if "..." in entry.arguments and not sizes:
        _refuse(text, entry, "takes at least one size, got none")
    if "..." not in entry.arguments and len(sizes) != len(entry.arguments):
        count = len(entry.arguments)
        _refuse(text, entry, f"takes {count} size{'s' * (count != 1)}, got {len(sizes)}")
    return entry.build(*sizes, **options)


def _sizes(
    argument: str, text: str, entry: NamedWorkload, number: int
) -> Sequence[int | float | Workload]:
    if entry.arguments[number : number + 1] in (("RATE",), ("MOMENTUM",)):
        return [_decimal(argument, text, entry)]
    if entry.arguments[:1] == ("VALUE",):
        return [_decimal(argument, text, entry, sign="-?")]
    if "..." not in entry.arguments:
        return [_whole(argument, text, entry)]
    size, power, count = (part.strip() for part in argument.partition("^"))
    times = _whole(count, text, entry) if power else 1
    if not 1 <= times <= MAX_SIZES:
        _refuse(text, entry, f"a size may be repeated 1 to {MAX_SIZES} times, got {times}")
    if size[:1].isalpha():
        return [_attribute(size, text, entry)] * times
    return [_whole(size, text, entry)] * times


def _decimal(value: str, text: str, entry: NamedWorkload, *, sign: str = "") -> float:
    pattern = sign + r"(?=\.?[0-9])[0-9]{0,15}(\.[0-9]{0,19})?"
    if not re.fullmatch(pattern, value):
        _refuse(text, entry, f"{_shown(value)} is not a decimal number")
    return float(value)


def _attribute(size: str, text: str, entry: NamedWorkload) -> Workload:
    """The queries of an attribute: "prefix85" is prefix:85, "window64/7" is window:64,7."""
    parts = re.fullmatch(r"([a-z][a-z-]*?)\s*(\d[\d/. ]*(?:/[a-z]+ *=[\d ]*)?)", size)
    names = [row.name for row in NAMES if row.arguments and row is not entry]
    if parts is None or parts[1] not in names:
        _refuse(text, entry, f"an attribute such as prefix85 takes a name of {', '.join(names)}")
    return _parse_factor(f"{parts[1]}:{parts[2].replace('/', ',')}")


def _whole(value: str, text: str, entry: NamedWorkload) -> int:
    if text == "prefix:inf":
        raise InvalidInputError("prefix:inf has no end; `pmldesign stream prefix:inf` answers it")
    if not re.fullmatch(r"-?[0-9]{1,19}", value):
        _refuse(text, entry, f"{_shown(value)} is not a whole number of up to 19 digits")
    return int(value)


def _refuse(text: str, entry: NamedWorkload, problem: str) -> NoReturn:
    raise InvalidInputError(
        f"workload {_shown(text)}: {problem}; write {entry.usage}, for example {entry.example}"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
