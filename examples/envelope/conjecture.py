"""Is the lower bound of [SPP] Theorem 5 the envelope? Linear programs on thousands of priors.

Randomized response with random k, eps_r, prior and delta. Where the prior satisfies the condition
of the theorem, its authors conjecture that their lower bound h is exact.
docs/background/envelope.md has a proof. This study checks h and the closed form for every prior
against certified programs. Writes the instances where h is not the envelope to conjecture.csv
beside this file (two minutes):

    python examples/envelope/conjecture.py

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Theorem 5.
"""

import csv
from pathlib import Path

import numpy as np

from pmldesign.envelope import (
    exact_envelope,
    randomized_response,
    randomized_response_bounds,
    randomized_response_envelope,
)

FOLDER = Path(__file__).parent
PRIORS = 6000


def instances(count, seed=20):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        k = int(rng.integers(2, 16))
        prior = rng.dirichlet(np.full(k, 10 ** rng.uniform(-0.7, 2))) + 1e-5
        yield prior / prior.sum(), 10 ** rng.uniform(-1.5, 0.9), rng.uniform(0.005, 0.995)


def main():
    rows = []
    for prior, epsilon, delta in instances(PRIORS):
        value = exact_envelope(randomized_response(prior, epsilon=epsilon), delta)
        bounds = randomized_response_bounds(prior, epsilon, delta)
        closed = randomized_response_envelope(prior, epsilon, delta)
        rows.append(
            {
                "k": len(prior),
                "epsilon": epsilon,
                "delta": delta,
                "condition": bounds.condition,
                "exact": value.upper,
                "certified_gap": value.gap,
                "h_minus_exact": bounds.lower - value.upper,
                "closed_form_minus_exact": closed - value.upper,
                "prior": " ".join(f"{p:.17g}" for p in prior),
            }
        )
    with (FOLDER / "conjecture.csv").open("w", newline="") as handle:
        writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: f"{v:.6g}" if isinstance(v, float) else v for name, v in row.items()}
            for row in rows
            if abs(row["h_minus_exact"]) > 1e-9
        )
    holds = [row for row in rows if row["condition"]]
    fails = [row for row in rows if not row["condition"]]
    short = [-row["h_minus_exact"] for row in fails]
    gap = max(row["certified_gap"] for row in rows)
    print(f"largest certified gap of the linear programs: {gap:.1e} nats")
    print(
        f"closed form, all {len(rows)}: largest deviation "
        f"{max(abs(row['closed_form_minus_exact']) for row in rows):.1e} nats"
    )
    print(
        f"condition holds, {len(holds)}: largest deviation of h "
        f"{max(abs(row['h_minus_exact']) for row in holds):.1e} nats"
    )
    print(
        f"condition fails, {len(fails)}: h is below the envelope by more than 1e-9 in "
        f"{sum(s > 1e-9 for s in short)} of them, by up to {max(short):.3f} nats"
    )


if __name__ == "__main__":
    main()
