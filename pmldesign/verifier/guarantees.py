r"""Guarantees in files: the numbers of each kind, their sentence, and the loss of noise.

The words are those of the definitions, with {about}: how neighbours differ, or under PML the
assumption about records. A sentence is written again from the numbers and compared as a whole.

The loss of noise at the ratio t of sensitivity and scale, in ball arithmetic (`losses` for PML):

    epsilon-DP, Laplace, cube       Delta_1 / b, Delta_inf / b
    zCDP, Gaussian DP, Renyi of     t^2/2, t, a t^2/2 for Gaussian noise, t as next; of Laplace
    order a                         noise, t = Delta_1 / b:  t + e^-t - 1, -2 Phi^-1(e^(-t/2)/2),
                                    log((a e^((a-1)t) + (a-1) e^(-at))/(2a-1))/(a-1)
    (epsilon, delta)-DP, Gaussian   HS_eps(t) = Phi(t/2 - eps/t) - e^eps Phi(-t/2 - eps/t),
                                    t = Delta_2 / sigma
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import scipy
from flint import arb

from pmldesign.verifier.balls import normal
from pmldesign.verifier.distributions import check_sample
from pmldesign.verifier.report import Checks, Header, as_number

RELATIONS = {
    "add-remove": "one record is added or removed",
    "replace": "one record is replaced (the number of records is public)",
}
"""How neighbours differ."""
ROUNDING = 1e-12
"""By which the sum of alpha may exceed 1."""


class Kind(NamedTuple):
    """The name of a guarantee in files, the meaning of its delta, its numbers, and its sentence."""

    kind: str
    failure: str | None
    numbers: tuple[str, ...]
    words: str

    @property
    def keys(self) -> set[str]:
        """Keys of its numbers in strategy files, where DP and PML have null for those of others."""
        beside = {"delta", "alpha", "failure"} if self.kind in ("dp", "pml") else set()
        return {"kind", "neighbours", *self.numbers} | beside


KINDS = {
    "PureDP": Kind(
        "dp",
        None,
        ("epsilon",),
        "No event becomes more than e^{epsilon} times as likely when {about}, whatever the data.",
    ),
    "ApproxDP": Kind(
        "dp",
        None,
        ("epsilon", "delta"),
        "No event's probability exceeds e^{epsilon} times what it was, plus {delta}, when {about}, "
        "whatever the data.",
    ),
    "ZCDP": Kind(
        "zcdp",
        None,
        ("rho",),
        "The Renyi divergence of every order a > 1 is at most a times {rho} when {about}, whatever "
        "the data (zCDP).",
    ),
    "GaussianDP": Kind(
        "gaussian-dp",
        None,
        ("mu",),
        "Whether {about} is as hard to tell as one draw from N(0, 1) from one of N({mu}, 1), or "
        "harder, whatever the data (Gaussian DP).",
    ),
    "RenyiDP": Kind(
        "renyi",
        None,
        ("order", "epsilon"),
        "The Renyi divergence of order {order} is at most {epsilon} when {about}, whatever the "
        "data.",
    ),
    "PML": Kind(
        "pml",
        None,
        ("epsilon", "alpha"),
        "No output raises an adversary's expected gain about any record more than e^{epsilon} "
        "times above what it was before, {about}.",
    ),
    "ApproxPML": Kind(
        "pml",
        "slack",
        ("epsilon", "delta", "alpha"),
        "Knowing any one record raises no event's probability above e^{epsilon} times what it was, "
        "plus {delta}, {about}.",
    ),
    "EnvelopePML": Kind(
        "pml",
        "envelope",
        ("epsilon", "delta", "alpha"),
        "Except with probability {delta}, nothing computed from the output raises an adversary's "
        "expected gain about any one record more than e^{epsilon} times above what it was before, "
        "{about}.",
    ),
}
"""By the names that manifests have."""
RANGES = {
    "epsilon": (0.0, math.inf),
    "delta": (0.0, 1.0),
    "rho": (0.0, math.inf),
    "mu": (0.0, math.inf),
    "order": (1.0, math.inf),
}
"""Of the numbers, without the ends."""
BESIDE = {"kind", "failure", "neighbours", "known", "published", "sample"}
"""Keys of a guarantee that are not among its numbers."""
CLOSE, HALVINGS = 1e-9, 50
"""Width of the interval around an inverse in double precision, and how often it is halved."""

Numbers = Mapping[str, Any]


def check_guarantee(numbers: Numbers, words: Any, cells: Any, checks: Checks) -> bool:
    """Add whether the numbers are those of a kind, in their ranges, and make the words.

    Args:
        numbers: of the guarantee, as strategy files have them.
        words: the sentence of the guarantee.
        cells: their number.
        checks: to which it is added.
    """
    kind = kind_of(numbers)
    sound = kind is not None and _in_range(numbers, kind, cells)
    checks.state("guarantee numbers", sound, "those of one kind of guarantee, in their ranges")
    if kind is None or not sound:
        return False
    if numbers.get("sample") is not None:
        check_sample(numbers, checks)
    right = sentence_of(kind, numbers, cells)
    checks.state("sentence", words == right, "what the numbers of the guarantee say in words")
    return True


def kind_of(numbers: Numbers) -> Kind | None:
    """The kind that has these numbers, and no others."""
    own = {key for key, value in numbers.items() if value is not None} - BESIDE
    told = (numbers.get("kind"), numbers.get("failure"), own)
    return next((k for k in KINDS.values() if (k.kind, k.failure, set(k.numbers)) == told), None)


def sentence_of(kind: Kind, numbers: Numbers, cells: int) -> str:
    """What is promised, to whom, and under which assumption."""
    about = _of_priors(numbers, cells) if kind.kind == "pml" else _of_neighbours(numbers)
    values = {name: _digits(numbers[name]) for name in kind.numbers if name in RANGES}
    return kind.words.format(**values, about=about)


def _in_range(numbers: Numbers, kind: Kind, cells: Any) -> bool:
    pml, known, alpha = kind.kind == "pml", numbers.get("known", ""), numbers.get("alpha")
    if numbers.keys() - {"known", "published", "sample"} != kind.keys:
        return False
    for name in kind.numbers:
        low, high = RANGES.get(name, (-math.inf, math.inf))
        value = as_number(numbers[name]) if name in RANGES else 0.0
        if value is None or not low < value < high:
            return False
    replaced = numbers.get("neighbours") == "replace"
    if numbers.get("neighbours") not in RELATIONS or (pml and not replaced):
        return False
    published = numbers.get("published", "")
    if not isinstance(known, str) or not isinstance(published, str) or (known and published):
        return False
    if (known or published) and (pml or not replaced):
        return False
    if isinstance(alpha, list):
        return len(alpha) == cells and _is_vector(alpha, sampled=bool(numbers.get("sample")))
    if "sample" in numbers:
        return False
    least = as_number(alpha)
    return not pml or (least is not None and 0 < least <= (1 + ROUNDING) / cells)


def _is_vector(alpha: list[Any], *, sampled: bool) -> bool:
    """Whether it is one of probabilities; limits of a sample may be 0."""
    values = [as_number(value) for value in alpha]
    inside = all(v is not None and (0 < v < 1 or (sampled and v == 0)) for v in values)
    return inside and 0 < math.fsum(alpha) <= 1 + ROUNDING


def _of_neighbours(numbers: Numbers) -> str:
    known, published = numbers.get("known", ""), numbers.get("published", "")
    if published:
        return (
            f"one record is replaced (the answers to {published!r} are public: this is about all "
            "that is published beside them, and what they tell about a record is not protected)"
        )
    if not known:
        return RELATIONS[numbers["neighbours"]]
    return (
        f"one record is replaced by one that {known!r} counts alike (the answers to {known!r} are "
        "public, and what they tell about a record is not protected)"
    )


def _of_priors(numbers: Numbers, cells: int) -> str:
    alpha, sample, source = numbers["alpha"], numbers.get("sample"), ""
    if isinstance(alpha, list):
        each = (
            f"falls in cell j of {cells} with probability at least alpha_j, from "
            f"{_digits(min(alpha))} to {_digits(max(alpha))}"
        )
    else:
        count = str(cells) if cells < 10**15 else f"{Decimal(cells):.3g}"
        each = (
            f"falls in each of the {count} cells with probability at least "
            f"{_digits(min(alpha, 1 / cells))}"
        )
    if sample is not None:
        each += (
            f", and these probabilities are within an l1 distance of {_digits(sample['radius'])} "
            "of the frequencies in a public sample"
        )
        source = (
            f"; these limits hold together with confidence {_digits(sample['confidence'])}, from a "
            f"public sample of {sample['records']} independent records of the same population"
        )
    return f"provided that records are independent, each {each}, and their number is public{source}"


def _digits(value: float) -> str:
    """The fewest digits that read back as the same float64."""
    return repr(float(value)).removesuffix(".0")


def gaussian_profile(ratio: Any, epsilon: Any) -> Any:
    """HS_epsilon(t), the smallest delta of Gaussians t standard deviations apart, growing in t."""
    if not bool(ratio > 0):  # columns that might differ only by rounding
        most = ratio.upper()
        return arb(0).union(gaussian_profile(most, epsilon)) if bool(most > 0) else arb(0)
    shift = epsilon / ratio
    return normal(ratio / 2 - shift) - epsilon.exp() * normal(-ratio / 2 - shift)


def dp_loss(numbers: Header, noise: str, ratio: Any) -> tuple[Any, float] | None:
    """An upper bound on the loss at sensitivity / scale, and the promised loss; None for PML."""
    kind, laplace, ratio = numbers["kind"], noise == "laplace", ratio.upper()  # losses grow
    if noise == "cube" or (kind == "dp" and laplace):
        return (ratio, numbers["epsilon"]) if kind == "dp" else None
    if kind == "dp":
        return gaussian_profile(ratio, arb(numbers["epsilon"])), numbers["delta"]
    if kind == "zcdp":
        return ratio + (-ratio).expm1() if laplace else ratio**2 / 2, numbers["rho"]
    if kind == "gaussian-dp":
        return _laplace_mu(ratio) if laplace else ratio, numbers["mu"]
    if kind == "renyi":
        a = arb(numbers["order"])
        moment = (a * ((a - 1) * ratio).exp() + (a - 1) * (-a * ratio).exp()) / (2 * a - 1)
        return moment.log() / (a - 1) if laplace else a * ratio**2 / 2, numbers["epsilon"]
    return None


def _laplace_mu(ratio: Any) -> Any:
    """The mu of Laplace noise between two values that the normal law separates."""
    tail = (-ratio / 2).exp() / 2
    guess = arb(float(-2 * scipy.special.ndtri_exp(math.log(0.5) - float(ratio) / 2)))
    low, high = guess * (1 - arb(CLOSE)) - CLOSE, guess * (1 + arb(CLOSE)) + CLOSE
    if not (bool(normal(-low / 2) >= tail) and bool(normal(-high / 2) <= tail)):
        raise ValueError("mu of Laplace noise is not computed")
    for _ in range(HALVINGS):
        middle = ((low + high) / 2).mid()
        low, high = (low, middle) if bool(normal(-middle / 2) <= tail) else (middle, high)
    return low.union(high)
