"""The flow of a question: candidates, their rows, and the result.

A candidate is a strategy for the workload: the strategy of least norm with its certificate, the
result of a search for one kind of noise, or a baseline. Its row is the candidate with the
admissible noise of smallest error, calibrated once. The design is the best row, so no row of the
table is better than the design.

Gaussian noise has a convex theory and a certificate (`factorize`), and under PML a descent from
there (`gaussian_pml_search`). Laplace noise has a search (`laplace`), which also starts from the
strategy of least norm, and so has cube noise if there are few queries (`cubes`). Which noise has
the smallest error depends on the guarantee: a small delta costs Gaussian noise more, many queries
cost Laplace noise more.

A baseline can be the design where nothing proves the contrary: under Laplace and cube noise, or if
the bounds of the certificate do not meet. There the baselines are evaluated before the result is
returned. Otherwise their rows are computed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

from pmldesign.designs.baselines import Baselines
from pmldesign.designs.dispatch import solve
from pmldesign.designs.optimized import Optimized
from pmldesign.designs.options import DesignArguments, takes_options
from pmldesign.designs.questions import Question, question_of
from pmldesign.designs.results import Design
from pmldesign.designs.rows import CLOSE, LEAST_NORM, Row, as_row, better, row_of, row_with
from pmldesign.designs.searches import Searches
from pmldesign.errors import PmldesignError
from pmldesign.factorization import answer
from pmldesign.mechanisms import NoiseChoice, on_own_grid
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.baselines.registry import usual_baselines
from pmldesign.strategies.online import streaming_form
from pmldesign.workloads import WorkloadLike
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Deadline


@takes_options
def optimize(
    workload: WorkloadLike,
    guarantee: Guarantee | None = None,
    *,
    p: float = 2.0,
    noise: NoiseChoice = "auto",
    streaming: bool = False,
    seed: int = 0,
    known: WorkloadLike | None = None,
    **options: Unpack[DesignArguments],
) -> Optimized:
    """The best mechanism for a workload and a guarantee, and the rows of all candidates.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        guarantee: the promise; None for Gaussian noise of a scale equal to the sensitivity.
        p: exponent of the l_p error, in [2, inf].
        noise: "gaussian", "laplace", "integer-laplace", "cube", or "auto" for all that can
            satisfy the guarantee; cube noise is tried if there are few queries.
        streaming: whether the strategy has to be lower triangular; then nothing is searched.
        seed: of the random starts of searches.
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        options: the attributes of `DesignOptions`; the time limit is for everything.

    Returns:
        The result: `.best` is the mechanism, `.rows` compares it with the usual strategies.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `factorize`, the searches and
            `mechanism`, and with `streaming` as `require_streaming`; arguments are refused before
            the first solve.
    """
    asked: dict[str, Any] = {"p": p, "noise": noise, "streaming": streaming, "seed": seed}
    return ask(question_of(workload, guarantee, known, options, **asked))


def ask(
    question: Question,
    *,
    rows: Mapping[str, Row] | None = None,
    design: Design | None = None,
    baselines: Baselines | None = None,
) -> Optimized:
    """The result of a question.

    Args:
        question: the question to answer.
        rows: of baselines, by name, if already known; the design is at least as good as these.
        design: the strategy of least norm, if it is known already.
        baselines: of the workload, if some of them are known already.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `optimize`.
    """
    deadline = Deadline.of(question.options.time_limit)
    if baselines is None:
        baselines = Baselines(question.workload, question.relation, question.options.schema)
    design = design or least_norm(question, deadline)
    searches = Searches(question, design, baselines, deadline)
    found = searches.run()
    result = Optimized(
        question,
        design,
        found,
        _candidates(searches),
        baselines,
        interrupted=searches.interrupted,
        deadline=deadline,
        known=dict(rows or {}),
    )
    if result.interrupted or question.options.buffers is not None or _is_settled(result):
        return result
    return _with_baselines(result)


def least_norm(question: Question, deadline: Deadline, *, start_only: bool = True) -> Design:
    """The strategy of least norm, in the form that is asked for.

    Args:
        question: the question to answer.
        deadline: of everything.
        start_only: whether the strategy has no row of its own; if Gaussian noise is not admissible
            it is only a start for the searches then, which get half of the time.
    """
    options, limit = question.options, question.options.time_limit
    if start_only and Noise.GAUSSIAN not in question.kinds and isinstance(limit, float):
        deadline = Deadline(limit / 2)
    design = solve(question.workload, question.p, replace(options, time_limit=deadline))
    if question.streaming:
        design = replace(design, strategy=streaming_form(design.strategy))
    return design


def _candidates(searches: Searches) -> tuple[Row, ...]:
    """Rows of the strategy of least norm and of the searches that gained on it, the best first."""
    question = searches.question
    factorization = searches.baselines.of(searches.design.strategy)
    first = row_with(LEAST_NORM, factorization, question, searches.kinds)
    rows = [first]
    # cube noise last: it has a row only if it is better than all others
    for noise, searched in sorted(searches.found.items(), key=lambda pair: pair[0] is Noise.CUBE):
        noisy = on_own_grid(searched.mechanism, question.p, question.integers)
        row = as_row(f"{noise}-search", replace(noisy, p=question.p))
        same = first.mechanism is not None and first.mechanism.noise is noise
        others = rows if noise is Noise.CUBE else [first] if same else []
        if all(better(other, row) is row for other in others):
            rows.append(row)
    best = min(rows, key=lambda row: row.error)
    return best, *(row for row in rows if row is not best)


def _is_settled(result: Optimized) -> bool:
    """Whether no baseline can be better: only Gaussian noise, whose optimum is known."""
    guarantee = result.guarantee
    if result.question.kinds != (Noise.GAUSSIAN,):
        return False
    if guarantee is not None and guarantee.pml:
        descent = result.searches.get(Noise.GAUSSIAN)
        return descent is not None and descent.status is Status.COMPLETED
    return result.certificate.gap <= CLOSE


def _with_baselines(result: Optimized) -> Optimized:
    """The result with a baseline as the design if one is better than all other candidates."""
    best, question = result.candidates[0], result.question
    cube = Noise.CUBE in result.searches and question.noise == "auto"
    try:
        for name in dict.fromkeys([*result.known, *usual_baselines(question.workload)]):
            if name not in result.known and result.deadline.over():
                break
            with suppress(PmldesignError):
                row = result.small_row(name)
                best = better(best, row)
                if cube:  # which no row of a table has unasked
                    factorization = result.baselines.factorization(name)
                    best = better(best, row_with(name, factorization, question, [Noise.CUBE]))
    except KeyboardInterrupt:
        result = replace(result, interrupted=True)
    if best is result.candidates[0]:
        return result
    if question.streaming:  # its lower-triangular form has the same error
        streamed = streaming_form(result.baselines.factorization(best.strategy).strategy)
        factorization = answer(streamed, question.workload, question.relation)
        best = row_of(best.strategy, factorization, question)
    return replace(result, candidates=(best, *result.candidates))
