"""Figures 1 and 2 of [SPP] with the exact envelope and the CVaR bound added.

Figure 1: the distribution of the leakage in Example 1 with its two quantiles at delta = 0.1, here
beside the envelope. Figure 2: randomized response with eps_r = 1 for k = 3, 5, 12, 20 and the
priors of the paper. Writes figure1.png, figure2.png and figure2.csv (nats) beside this file:

    python examples/envelope/figures.py

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes.
"""

import csv
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from pmldesign.envelope import (
    Channel,
    binary_envelope,
    cvar_bound,
    exact_envelope,
    leakage_quantile,
    pointwise_leakage,
    randomized_response,
    randomized_response_bounds,
    randomized_response_dp,
)
from pmldesign.plots import draw_envelope

FOLDER = Path(__file__).parent
EPSILON = 1.0
DELTAS = np.arange(1, 200) / 200


def four_level_prior(k, rho=0.1):
    return np.repeat([1 - 3 * rho, 1 - rho, 1 + rho, 1 + 3 * rho], k // 4) / k


PRIORS = {
    3: np.array([0.2, 0.3, 0.5]),
    5: np.array([0.1, 0.2, 0.2, 0.2, 0.3]),
    12: four_level_prior(12),
    20: four_level_prior(20),
}


def figure_1():
    matrix = [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [0, 0.2, 0.4, 0.4], [0.2, 0, 0.4, 0.4]]
    channel = Channel(matrix, [0.25] * 4)
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    leakage, masses = pointwise_leakage(channel), channel.output_distribution
    grid = np.linspace(0, 1.6, 801)
    left.step(grid, [masses[leakage <= t].sum() for t in grid], where="post", label="$C_Y(t)$")
    for side, color in (("left", "tab:green"), ("right", "tab:red")):
        value = leakage_quantile(channel, 0.1, side=side)
        left.axvline(value, color=color, linestyle="--", label=f"{side} quantile: {value:.4f}")
    left.set_xlabel("t (nats)")
    left.set_ylabel("probability of leakage at most t")
    left.legend()
    left.grid(alpha=0.3)
    curves = {
        "exact envelope": [exact_envelope(channel, delta).value for delta in DELTAS],
        "CVaR bound": [cvar_bound(channel, delta) for delta in DELTAS],
        "binary envelope": [binary_envelope(channel, delta) for delta in DELTAS],
    }
    draw_envelope(right, DELTAS, {name: np.array(values) for name, values in curves.items()})
    right.set_title("Example 1 after any post-processing")
    figure.savefig(FOLDER / "figure1.png", dpi=150)


def rows_of_figure_2():
    for k, prior in PRIORS.items():
        channel = randomized_response(prior, epsilon=EPSILON)
        for delta in DELTAS:
            bounds = randomized_response_bounds(prior, EPSILON, delta)
            value = exact_envelope(channel, delta)
            yield {
                "k": k,
                "delta": delta,
                "exact_lower": value.lower,
                "exact": value.upper,
                "cvar": cvar_bound(channel, delta),
                "theorem5_upper": bounds.upper,
                "theorem5_lower": bounds.lower,
                "theorem5_condition": bounds.condition,
                "binary": binary_envelope(channel, delta),
                "approximate_dp": randomized_response_dp(k, EPSILON, delta),
            }


def figure_2(rows):
    figure = Figure(figsize=(11, 8), layout="constrained")
    for axes, k in zip(figure.subplots(2, 2).flat, PRIORS, strict=True):
        mine = [row for row in rows if row["k"] == k]

        def column(name, mine=mine):
            return np.array([row[name] for row in mine])

        draw_envelope(
            axes,
            DELTAS,
            {
                "Theorem 3": column("theorem5_upper"),
                "CVaR bound": column("cvar"),
                "exact envelope": column("exact"),
                "binary envelope": column("binary"),
            },
        )
        lower = column("theorem5_lower")
        axes.plot(DELTAS[::8], lower[::8], "o", ms=4, mfc="none", c="k", label="Theorem 5, lower")
        axes.plot(DELTAS, column("approximate_dp"), c="tab:red", lw=1, label=r"$\epsilon_{DP}$")
        axes.set_ylim(0, 1.05 * EPSILON)
        axes.set_title(f"randomized response, k = {k}")
        axes.legend(fontsize=8)
    figure.savefig(FOLDER / "figure2.png", dpi=150)


def main():
    figure_1()
    rows = list(rows_of_figure_2())
    with (FOLDER / "figure2.csv").open("w", newline="") as handle:
        writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: f"{v:.10g}" if isinstance(v, float) else v for name, v in row.items()}
            for row in rows
        )
    figure_2(rows)
    for k in PRIORS:
        mine = [row for row in rows if row["k"] == k]
        gap = max(row["cvar"] - row["exact"] for row in mine)
        paper = max(row["theorem5_upper"] - row["exact"] for row in mine)
        holds = [row for row in mine if row["theorem5_condition"]]
        off = max(abs(row["theorem5_lower"] - row["exact"]) for row in holds)
        print(
            f"k = {k}: CVaR bound above the envelope by at most {gap:.4f} nats, Theorem 5 by "
            f"{paper:.4f}; its lower bound off by at most {off:.1e} ({len(holds)} of {len(mine)} "
            "deltas satisfy the condition)"
        )


if __name__ == "__main__":
    main()
