r"""The certificate of a leakage envelope: a channel, a prior, a post-processing and a dual vector.

With P(y|x) the channel, p the prior, q_y = sum_x p_x P(y|x) and r_xy = P(y|x)/q_y:

    leakage of y      log max_x r_xy;  the largest one, and log sum_y max_x P(y|x) on average
    lower             K(z|y) leaks at least log min_z max_x (P K)_xz/(q K)_z over some symbols z
                      whose probability is at least delta
    upper             for mu >= 0, no post-processing leaks more than eps with a probability above
                      sum_y q_y max(0, 1 + max_x mu_x (r_xy - e^eps)), x with max_y r_xy > e^eps
"""

from __future__ import annotations

from typing import Any

from flint import arb

from pmldesign.verifier.balls import above, below, largest, total
from pmldesign.verifier.report import KEY, OBJECT, Checks, Header, digest_of_object

NAME = "ball arithmetic of 192 bits: bounds are theorems about the channel"
CLAIMS = {
    *("format", "pmldesign", "channel", "matrix", "prior", "maximal_leakage", "largest_leakage"),
    *("delta", "lower", "upper", "post_processing", "dual", KEY),
}
"""Of a certificate; the channel is a name alone."""
STOCHASTIC = 1e-12
"""By how much rows may miss 1; they are divided by their sums."""


def check_envelope(content: Header, checks: Checks) -> str:
    """All claims of a certificate."""
    same = content[KEY].get(OBJECT) == digest_of_object(content)
    checks.state("digest", same, "of the whole certificate")
    sound = content.keys() == CLAIMS and 0 < float(content["delta"]) < 1
    checks.state("claims", sound, "those of a certificate, delta in (0, 1)")
    P, fits = _rows(content["matrix"])
    (prior,), other = _rows([content["prior"]])
    K, third = _rows(content["post_processing"])
    secrets, outputs = len(P), len(P[0])
    sizes = len(prior) == secrets and len(K) == outputs and len(content["dual"]) == secrets
    checks.state("probabilities", fits and other and third and sizes, "rows with a sum of 1")
    if not sizes:
        return NAME
    q = [total(prior[x] * P[x][y] for x in range(secrets)) for y in range(outputs)]
    used = [y for y in range(outputs) if bool(q[y] > 0)]
    ratios = {y: [P[x][y] / q[y] for x in range(secrets)] for y in used}
    average = total(largest(P[x][y] for x in range(secrets)) for y in used).log()
    checks.equal("maximal_leakage", content["maximal_leakage"], below(average), above(average))
    single = largest(largest(ratios[y]) for y in used).log()
    checks.equal("largest_leakage", content["largest_leakage"], below(single), above(single))
    delta = float(content["delta"])
    checks.at_least("lower", content["lower"], below(_reached(P, K, q, delta)))
    _check_upper(content, ratios, q, delta, checks)
    return NAME


def _rows(rows: Any) -> tuple[list[list[Any]], bool]:
    """Rows divided by their sums, and whether they are probabilities."""
    balls = [[arb(float(value)) for value in row] for row in rows]
    sums = [total(row) for row in balls]
    fits = all(abs(float(value) - 1) <= STOCHASTIC for value in sums)
    fits = fits and all(float(value) >= 0 for row in rows for value in row)
    fits = fits and len({len(row) for row in rows}) == 1
    return [[x / value for x in row] for row, value in zip(balls, sums, strict=True)], fits


def _reached(P: Any, K: Any, q: Any, delta: float) -> Any:
    """What the post-processing leaks with probability delta: the symbols that leak most."""
    outputs = range(len(q))
    symbols = []
    for z in range(len(K[0])):
        mass = total(q[y] * K[y][z] for y in outputs)
        if bool(mass > 0):
            joint = [total(row[y] * K[y][z] for y in outputs) for row in P]
            symbols.append((largest(joint) / mass, mass))
    symbols.sort(key=lambda pair: -float(pair[0]))
    mass = arb(0)
    for ratio, probability in symbols:
        mass += probability
        if float(mass) >= delta * (1 - STOCHASTIC):
            return ratio.log()
    return arb(0)


def _check_upper(content: Header, ratios: Any, q: Any, delta: float, checks: Checks) -> None:
    epsilon, dual = float(content["upper"]), [arb(float(mu)) for mu in content["dual"]]
    positive = min(float(mu) for mu in content["dual"]) >= 0
    growth = arb(epsilon).exp()
    secrets = [
        x for x in range(len(dual)) if any(bool(values[x] > growth) for values in ratios.values())
    ]
    mass = arb(0)
    for y, values in ratios.items():
        best = arb(-1)
        for x in secrets:
            best = best.max(dual[x] * (values[x] - growth))
        mass += q[y] * (1 + best).max(arb(0))
    proved = above(mass)
    holds = positive and proved <= delta * (1 + STOCHASTIC)
    checks.state(
        "upper", holds, f"leakage above {epsilon:.9g} has at most this probability", proved
    )
    near = float(content["lower"]) >= epsilon - 1e-6 * max(1.0, epsilon)
    checks.state("gap", near, "lower and upper are within a millionth of each other")
