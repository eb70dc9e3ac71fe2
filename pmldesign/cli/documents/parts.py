"""Parts of documents on a workload, its norm, and a mechanism: facts, JSON and sections."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pmldesign.cli.documents.document import (
    Cell,
    Fact,
    Picture,
    Rounded,
    Section,
    Table,
    records,
)
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError, VacuousGuaranteeError
from pmldesign.mechanisms import Mechanism, own_grid_gain
from pmldesign.mechanisms.choice import LEAST_GAIN
from pmldesign.privacy.curves import DELTAS, PrivacyCurve
from pmldesign.privacy.guarantees import PML, EnvelopePML, Guarantee, PMLGuarantee
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least, at_most, of_scale, shortest
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.schema import AnyParticipation
from pmldesign.workloads import Workload
from pmldesign.workloads.display import count_text
from pmldesign_solvers.certificate.cells import Certificate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORST = 10
"""Queries that are listed by name."""
MANY_QUERIES = 2**20
"""Beyond, the errors of queries are not drawn."""
ASIDES = {
    "record": re.compile(r" (All rows of one person, .* count as one record here\.)"),
    "public": re.compile(r" \((the answers to .* is not protected)\)"),
    "sample": re.compile(r"; (these limits hold together .*)(?=\.)"),
    "frequencies": re.compile(r", and (these probabilities are within .* in a public sample)"),
    "provided": re.compile(r", provided that (.*\.)"),
}
"""What follows the promise in the sentences of guarantees, in the order in which it is cut off."""
INTEGER_NOISE = "integer-valued Laplace noise, for epsilon only; plans need --noise laplace"
"""A note for readers."""
MOST_PARTS = 6
"""Maximum number of parts whose shares are shown."""


def announced(measured: Strategy) -> str:
    """The line of progress while a strategy gets its noise."""
    rows, cells = map(count_text, measured.shape)
    return f"{measured.name}: noise and errors of {rows} measurements of {cells} cells"


@dataclass(frozen=True)
class Said:
    """What there is to say of a mechanism.

    Attributes:
        noisy: the mechanism.
        at_alpha: the least probability of --at-alpha.
    """

    noisy: Mechanism
    at_alpha: float | None = None

    def data(self) -> dict[str, Any]:
        """The documented keys; None where nothing is promised."""
        noisy = self.noisy
        return {
            **guarantee_data(noisy.guarantee, noisy.strategy.cells),
            "guarantee": noisy.words or None,
            "privacy": self._privacy(),
            "if_alpha_is_wrong": noisy.fallback.to_json() if noisy.fallback else None,
        }

    def facts(self) -> list[Fact]:
        """Its guarantee in every privacy definition, rounded up; empty without a guarantee.

        Under PML also the remaining guarantee if alpha is wrong.
        """
        noisy, guarantee = self.noisy, self.noisy.guarantee
        if guarantee is None or not 0 < noisy.privacy.ratio < math.inf:
            return []
        relation = f"{noisy.neighbours.value} neighbours"
        if guarantee.known:
            relation += f" that {guarantee.known!r} counts alike"
        elif guarantee.published:
            relation += f" beside {guarantee.published!r}"
        facts = [("privacy", f"{relation}: {currencies(noisy.privacy, guarantee)}")]
        if self.leaked is not None:
            facts.append(("leakage", _in_words(self.leaked)))
        return facts + self.integers + self.wrong_alpha

    @property
    def integers(self) -> list[Fact]:
        """That noise is integer-valued, or that it would gain much."""
        if self.noisy.own_grid:
            return [("integers", INTEGER_NOISE)]
        gain = own_grid_gain(self.noisy)
        if gain is None or gain[0] > 1 - LEAST_GAIN:
            return []
        part, epsilon = gain
        text = (
            f"--noise integer-laplace has {part:.3g} times these standard deviations, or equal ones"
            f" at epsilon {at_least(epsilon, 4)}"
        )
        return [("integers", text)]

    @property
    def wrong_alpha(self) -> list[Fact]:
        """What is left of a guarantee under PML if alpha is wrong."""
        fallback = self.noisy.fallback
        return [] if fallback is None else [("if wrong", fallback.describe())]

    @property
    def noise_text(self) -> str:
        """The noise and its scale."""
        noisy = self.noisy
        kind = "Integer-valued Laplace" if noisy.own_grid else noisy.noise.value.capitalize()
        return f"{kind} noise of scale {of_scale(noisy.scale)}"

    @cached_property
    def leaked(self) -> dict[str, Any] | None:
        """The pointwise maximal leakage at --at-alpha, rounded up; None without that option.

        Epsilon is null if it is log(1/alpha), which no mechanism exceeds. For Gaussian noise it
        holds except with probability delta, that of the guarantee or 1e-6.
        """
        noisy, alpha = self.noisy, self.at_alpha
        if alpha is None or noisy.guarantee is None or noisy.scale == 0:
            return None
        if noisy.noise is Noise.CUBE:
            raise InvalidInputError(
                "the leakage of cube noise is not computed; leave --at-alpha out, or take --noise"
                " laplace"
            )
        delta = 0.0
        promise: PMLGuarantee = PML(1.0, alpha)
        if noisy.noise is Noise.GAUSSIAN:
            delta = noisy.guarantee.delta or DELTAS[1]
            promise = EnvelopePML(1.0, delta, alpha)
        epsilon = None
        with contextlib.suppress(VacuousGuaranteeError):
            from pmldesign.designs.targets.budgets import least_leakage

            epsilon = least_leakage(noisy.strategy, promise, noisy.noise, noisy.scale)
        return {"alpha": alpha, "delta": delta or None, "epsilon": epsilon}

    def _privacy(self) -> dict[str, Any] | None:
        """The numbers of every currency; None without a guarantee or without noise."""
        if self.noisy.guarantee is None:
            return None
        curve = self.noisy.privacy
        if math.isinf(curve.ratio):
            return None
        return curve.to_json() | ({} if self.leaked is None else {"leakage": self.leaked})

    def picture(self) -> Figure:
        """Delta against epsilon."""
        from pmldesign.plots import privacy_figure

        return privacy_figure({self.noisy.strategy.name: self.noisy.privacy})

    def guarantee_section(self, numbers: Mapping[str, Any] | None = None) -> Section:
        """The guarantee in words and numbers; under PML also the guarantee if alpha is wrong."""
        guarantee = self.noisy.guarantee
        if guarantee is None:
            none = "None was asked for: the scale of the noise is the sensitivity of the strategy."
            return Section("The guarantee", sentences=[none])
        numbers = numbers or guarantee.to_json()
        facts = [(key, str(value)) for key, value in numbers.items() if value is not None]
        facts += [("if alpha is wrong", text) for _, text in self.wrong_alpha]
        (_, words), *asides = promised(self.noisy.words)
        return Section("The guarantee", sentences=[words], facts=[*asides, *facts])

    def sections(self) -> list[Section]:
        """The other currencies, where anything is promised, the strategy, and every query."""
        return [*self._currencies(), self.measured(), *self._queries()]

    def _currencies(self) -> list[Section]:
        numbers = self._privacy()
        if not numbers:
            return []
        single = [(key, str(n)) for key, n in numbers.items() if n and not isinstance(n, list)]
        tables = [
            records([row | {"epsilon": Rounded(e := row["epsilon"], at_least(e))} for row in rows])
            for rows in numbers.values()
            if isinstance(rows, list)
        ]
        return [Section("The same noise in other currencies", facts=single, tables=tables)]

    def measured(self, noise: str = "") -> Section:
        """The strategy, as a heat map if it is materialized, and its noise."""
        noisy = self.noisy
        noise = noise or f"{noisy.noise_name} of scale {of_scale(noisy.scale, 9)}"
        rows, cells = map(count_text, noisy.strategy.shape)
        strategy = f"{noisy.strategy.name}, {rows} measurements of {cells} cells"
        facts = [("strategy", strategy), ("noise", f"{noise} on every measurement")]
        caption = "What is measured: every row is a measurement."
        return Section("The strategy", facts=facts, pictures=[Picture(self._heat_map, caption)])

    def _heat_map(self) -> Figure | None:
        from pmldesign.plots.designs import strategy_figure

        return strategy_figure(self.noisy.strategy)

    def _queries(self) -> list[Section]:
        """The standard deviation of every query, and the worst ones by name."""
        workload = self.noisy.workload
        if workload.shape[0] > MANY_QUERIES:
            return []
        from pmldesign.plots.designs import deviations_figure

        deviations = self.noisy.standard_deviations
        order = deviations.argsort(kind="stable")[::-1][:WORST]
        rows: list[list[Cell]] = [
            [workload.row_label(int(row)), float(deviations[row])] for row in order
        ]
        return [
            Section(
                "The error of every query",
                sentences=[f"The {len(rows)} queries with the largest errors:"],
                tables=[Table(("query", "standard deviation"), rows)],
                pictures=[
                    Picture(lambda: deviations_figure({"design": deviations}), "All queries.")
                ],
            )
        ]


def workload_fact(workload: Workload) -> Fact:
    """Its name and size."""
    m, n = map(count_text, workload.shape)
    return "workload", f"{workload.name}: {m} queries on {n} cells"


def workload_data(workload: Workload) -> dict[str, Any]:
    """Its name and size."""
    m, n = workload.shape
    return {"workload": workload.name, "queries": m, "cells": n}


def promised(words: str) -> list[Fact]:
    """The guarantee, and a line each for its assumptions and side remarks."""
    facts = []
    for name, form in ASIDES.items():
        found = form.search(words)
        if found is not None:
            words = words.replace(found[0], "", 1)
            facts.append((name, found[1]))
    return [("guarantee", words.removesuffix(".") + "."), *reversed(facts)]


def record_facts(participation: AnyParticipation | None, words: str) -> list[Fact]:
    """What a record is where a person takes part several times, unless the words say it."""
    if participation is None or (words and participation.sentence):
        return []
    return [("record", participation.describe())]


def guarantee_data(guarantee: Guarantee | None, cells: int) -> dict[str, Any]:
    """What is promised, in words and as numbers; None where nothing is."""
    return {
        "guarantee": guarantee and guarantee.describe(cells),
        "guarantee_numbers": guarantee and guarantee.to_json(),
    }


def norm_data(design: Design) -> dict[str, float]:
    """Both bounds on the norm."""
    return {name: getattr(design.certificate, name) for name in ("lower", "upper", "gap")}


def optimum_facts(design: Design) -> list[Fact]:
    """What a matrix attains that is not returned, if that is known."""
    if design.optimum is None:
        return []
    gap = Certificate(design.certificate.lower, design.optimum).gap
    told = f"at most {at_least(design.optimum, 9)}, gap {gap:.1e}"
    return [("optimum", f"{told}, by a matrix that is not returned")]


def between(norm: Certificate, digits: int = 9) -> str:
    """Both bounds on the norm, rounded outwards."""
    return f"between {at_most(norm.lower, digits)} and {at_least(norm.upper, digits)}"


def shares_data(design: Design, noise: Noise) -> dict[str, float] | None:
    """What part of the budget each part has under Gaussian noise, if there are several."""
    return design.budget_shares if noise is Noise.GAUSSIAN else None


def shares_facts(shares: dict[str, float] | None) -> list[Fact]:
    """The same in words, where the parts are few."""
    shares = shares or {}
    parts = ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())
    return [("shares", f"of the budget: {parts}")] if 1 < len(shares) <= MOST_PARTS else []


def written(output: Any) -> list[Fact]:
    """The file that was written."""
    return [] if output is None else [("written", str(output))]


def at_least_facts(who: str, what: str, value: float | None) -> list[Fact]:
    """A lower bound as a fact, if there is one."""
    return [(who, f"{what} at least {at_most(value, 9)}")] if value else []


def certificate(norm: Certificate, output: Any, sentence: str, facts: Sequence[Fact]) -> Section:
    """The bounds on the norm, their consequences, and how to verify them."""
    check = "write the strategy with -o FILE.npz, then pmldesign verify FILE.npz"
    if output is not None:
        check = (
            f"pmldesign verify {output}: recomputes every number in the file from its"
            " arrays, without the solvers"
        )
    bounds = f"{between(norm, 12)}, gap {norm.gap:.2e}"
    return Section(
        "What was certified",
        facts=[("norm", bounds), *facts, ("to check it", check)],
        sentences=[sentence],
    )


def currencies(curve: PrivacyCurve, guarantee: Guarantee) -> str:
    """What noise satisfies in every currency, in words; its own budget as it was asked for."""
    rho, mu = (getattr(guarantee, unit, None) for unit in ("rho", "mu"))
    pairs = [f"{at_least(curve.epsilon(d), 4)} at delta {shortest(d)}" for d in DELTAS]
    parts = [
        f"rho {at_least(rho or curve.rho, 4)} (zCDP)",
        f"mu {at_least(mu or curve.mu, 4)} (Gaussian DP)",
        "epsilon "
        + ", ".join(pairs if curve.gaussian else [f"{at_least(curve.pure, 4)} at delta 0"]),
    ]
    return "; ".join(parts)


def _in_words(leaked: dict[str, Any]) -> str:
    """What leaks, in words."""
    alpha, delta = leaked["alpha"], leaked["delta"]
    if leaked["epsilon"] is None:
        most = at_least(-math.log(alpha), 4)
        text = f"as much as any mechanism leaks, log(1/{shortest(alpha)}) = {most}"
    else:
        text = f"epsilon {at_least(leaked['epsilon'], 4)} (PML)"
    but = "" if delta is None else f", but for a probability of {shortest(delta)}"
    return f"if every cell has probability {shortest(alpha)} or more: {text}{but}"
