"""The text of a guarantee: one syntax for the command line, studies, files, reprs and messages.

    dp:EPSILON[,delta=DELTA]                                differential privacy
    zcdp:RHO                                                zero-concentrated DP
    gdp:MU                                                  Gaussian DP
    renyi:ORDER,EPSILON                                     Renyi DP of one order
    pml:EPSILON,alpha=ALPHA[,delta=DELTA[,failure=KIND]]    pointwise maximal leakage

DP, zCDP, Gaussian DP and Renyi DP also take `neighbours=add-remove` (the default) or
`neighbours=replace`; neighbours are always "replace" for PML. KIND is "envelope" (the default) or
"slack". A guarantee with an open budget, whose smallest value is to be found, leaves out EPSILON,
RHO or MU: dp:delta=1e-6, zcdp, renyi:8, pml:alpha=0.1. ALPHA is a number, or a source of one number
for each cell that the caller resolves: a file, or `sample:FILE[,confidence=C]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pmldesign.arguments import as_number, shown
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import (
    PML,
    ZCDP,
    ApproxDP,
    ApproxPML,
    EnvelopePML,
    GaussianDP,
    Guarantee,
    PureDP,
    RenyiDP,
)
from pmldesign.privacy.outward import shortest

Alpha = float | tuple[float, ...]
AlphaReader = Callable[[str, float | None], Alpha]
"""From a source and a confidence (None if not given) to alpha."""

EXAMPLES = {
    "dp": "dp:1 or dp:1,delta=1e-6",
    "zcdp": "zcdp:0.5",
    "gdp": "gdp:1",
    "renyi": "renyi:8,0.3",
    "pml": "pml:1,alpha=0.1 or pml:1,alpha=0.1,delta=1e-6,failure=slack",
}
"""Examples of each kind, for messages."""
KEYS = {
    "dp": ("delta", "neighbours"),
    "zcdp": ("neighbours",),
    "gdp": ("neighbours",),
    "renyi": ("neighbours",),
    "pml": ("alpha", "delta", "failure", "confidence"),
}
"""Keys that may follow the numbers of each kind."""
FIRST = {"zcdp": ("rho",), "gdp": ("mu",), "renyi": ("order", "epsilon")}
"""Attributes that come first, without a key; epsilon in the other kinds."""
PLACEHOLDER = 1e-6
"""The budget of a guarantee whose budget is open; searches replace it."""
WORDS = ("neighbours", "failure", "alpha")
"""Keys whose values need not be numbers."""
SAMPLE = "sample:"


def parse_guarantee(
    text: str,
    *,
    neighbours: str = "add-remove",
    read_alpha: AlphaReader | None = None,
    open_budget: bool = False,
) -> Guarantee:
    """The guarantee that a text describes.

    Args:
        text: such as "dp:1,delta=1e-6" (the syntax is in the module's docstring).
        neighbours: the relation if the text does not name one; PML ignores it.
        read_alpha: reads ALPHA if it is not a number; None refuses files and samples.
        open_budget: the text leaves the budget open, and the guarantee has PLACEHOLDER for it.

    Raises:
        InvalidInputError: another syntax, or numbers out of range.
    """
    kind, colon, rest = str(text).strip().partition(":")
    if kind not in KEYS or not (colon or open_budget):
        raise _refusal(text, f"the kind must be one of {', '.join(KEYS)}, followed by a colon")
    numbers, values = _split(text, rest) if rest else ([], {})
    for key in values:
        if key not in KEYS[kind]:
            allowed = ", ".join(KEYS[kind])
            raise _refusal(text, f"{key!r} is not a key of {kind}; its keys are {allowed}")
    expected = (2 if kind == "renyi" else 1) - open_budget
    if len(numbers) != expected:
        which = " and ".join(FIRST.get(kind, ("epsilon",))[:expected])
        problem = f"{kind} starts with {which}" if which else "its budget is searched, so omit it"
        raise _refusal(text, problem)
    numbers += [PLACEHOLDER] * open_budget
    return _built(text, kind, numbers, values, neighbours, read_alpha)


def _split(text: str, rest: str) -> tuple[list[float], dict[str, Any]]:
    """Leading numbers, and the values of keys."""
    numbers: list[float] = []
    values: dict[str, Any] = {}
    for part in rest.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and not values:
            numbers.append(_number(text, "value", key))
        elif not equals or key in values:
            raise _refusal(text, f"{part.strip()!r} must be key=value, with each key once")
        else:
            values[key] = value if key in WORDS else _number(text, key, value)
    return numbers, values


def _number(text: str, key: str, value: str) -> float:
    number = as_number(value)
    if number is None:
        raise _refusal(text, f"{key} {value!r} is not a number")
    return number


def _built(
    text: str,
    kind: str,
    numbers: list[float],
    values: Mapping[str, Any],
    neighbours: str,
    read_alpha: AlphaReader | None,
) -> Guarantee:
    relation: Any = values.get("neighbours", neighbours)
    if kind == "pml":
        alpha = _alpha(text, values, read_alpha)
        if "delta" not in values:
            if "failure" in values:
                raise _refusal(text, "failure needs a delta")
            return PML(numbers[0], alpha)
        failure = values.get("failure", "envelope")
        if failure not in ("envelope", "slack"):
            raise _refusal(text, f"failure is envelope or slack, not {failure!r}")
        loose = EnvelopePML if failure == "envelope" else ApproxPML
        return loose(numbers[0], values["delta"], alpha)
    if kind == "dp":
        if "delta" in values:
            return ApproxDP(numbers[0], values["delta"], relation)
        return PureDP(numbers[0], relation)
    if kind == "renyi":
        return RenyiDP(numbers[0], numbers[1], relation)
    return (ZCDP if kind == "zcdp" else GaussianDP)(numbers[0], relation)


def _alpha(text: str, values: Mapping[str, Any], read_alpha: AlphaReader | None) -> Alpha:
    if "alpha" not in values:
        raise _refusal(text, "pml needs alpha, the least probability of a cell: alpha=0.05")
    source = values["alpha"]
    number = as_number(source)
    if "confidence" in values and not source.startswith(SAMPLE):
        raise _refusal(text, "confidence needs alpha=sample:FILE")
    if number is not None:
        return number
    if read_alpha is None:
        raise _refusal(text, f"alpha {source!r} is not a number")
    return read_alpha(source, values.get("confidence"))


def _refusal(text: str, problem: str) -> InvalidInputError:
    kind = str(text).strip().partition(":")[0]
    example = EXAMPLES.get(kind, ", ".join(EXAMPLES.values()))
    return InvalidInputError(f"guarantee {shown(text)}: {problem}; write for example {example}")


def guarantee_text(guarantee: Guarantee) -> str:
    """The text that `parse_guarantee` reads; the values of a vector alpha are only counted.

    Invariants do not appear in the text: they belong to the question.
    """
    numbers = {key: value for key, value in guarantee.to_json().items() if value is not None}
    kind = {"gaussian-dp": "gdp"}.get(guarantee.kind, guarantee.kind)
    first = FIRST.get(kind, ("epsilon",))
    parts = [",".join(shortest(numbers[name]) for name in first)]
    alpha = numbers.get("alpha")
    if isinstance(alpha, list):
        parts.append(f"alpha=({len(alpha)} values, the least {shortest(min(alpha))})")
    elif alpha is not None:
        parts.append(f"alpha={shortest(alpha)}")
    if numbers.get("delta"):
        parts.append(f"delta={shortest(numbers['delta'])}")
    if guarantee.pml:
        parts += [f"failure={guarantee.failure}"] if guarantee.failure else []
    elif guarantee.neighbours.value != "add-remove":
        parts.append(f"neighbours={guarantee.neighbours.value}")
    return f"{kind}:{','.join(parts)}"
