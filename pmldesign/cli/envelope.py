"""`pmldesign envelope`: how much a finite mechanism leaks after any post-processing."""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np

from pmldesign.envelope import (
    Channel,
    EnvelopeCurve,
    binary_envelope,
    cvar_bound,
    envelope_curve,
    exact_envelope,
    leakage_quantile,
    maximal_leakage,
    pointwise_leakage,
    theorem3_bound,
)
from pmldesign.files import atomic_write, check_writable, load_channel
from pmldesign_solvers.operators import Array


@click.command()
@click.argument("channel")
@click.option(
    "--prior", required=True, help="Distribution of the secret: a file, 0.2,0.3,0.5 or uniform."
)
@click.option("--delta", type=float, help="Probability with which more may leak, in (0, 1).")
@click.option("--curve", is_flag=True, help="The envelope at many deltas, and its breakpoints.")
@click.option(
    "--points", type=click.IntRange(2), default=19, show_default=True, help="Deltas of the curve."
)
@click.option("--plot", metavar="FILE", help="Draw the curve (.png, .pdf or .svg).")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of tables.")
@click.option("-o", "--output", metavar="FILE", help="Write the worst post-processing (.csv).")
def envelope(
    channel: str,
    prior: str,
    delta: float | None,
    curve: bool,
    points: int,
    plot: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Leakage of a finite mechanism that holds with probability 1 - delta, whatever is done next.

    CHANNEL is a file (.npy, .npz, .csv, .mtx) with one row P(. | x) for each value x of the
    secret, "-" for standard input, or a name: rr:5,eps=1  extremal:5,eps=0.1
    laplace:5,scale=1,cells=8  gaussian:5,scale=1,cells=8
    """
    wants_curve = curve or plot is not None
    if delta is None and not wants_curve:
        raise click.UsageError("give --delta, or ask for the whole curve with --curve or --plot")
    if output is not None and delta is None:
        raise click.UsageError("--output writes the post-processing at one delta: give --delta")
    if plot is not None and plot.rpartition(".")[2].lower() not in _PLOT_KINDS:
        raise click.UsageError(f"--plot writes .png, .pdf or .svg, got {plot!r}")
    for path in (plot, output):
        if path is not None:
            check_writable(path)
    loaded = load_channel(channel, prior)
    report: dict[str, Any] = {
        "channel": channel,
        "secrets": loaded.shape[0],
        "outputs": loaded.shape[1],
        "maximal_leakage": maximal_leakage(loaded),
        "largest_leakage": float(pointwise_leakage(loaded).max()),
    }
    if delta is not None:
        report |= _at(loaded, delta, output)
    if wants_curve:
        found = envelope_curve(loaded, np.arange(1, points + 1) / (points + 1))
        report["curve"] = _curve(loaded, found)
        if plot is not None:
            _plot(channel, report["curve"], plot)
    click.echo(json.dumps(report, indent=2) if as_json else _table(report))


def _at(channel: Channel, delta: float, output: str | None) -> dict[str, Any]:
    """The bounds at one delta; writes the post-processing if asked to."""
    value = exact_envelope(channel, delta)
    if output is not None:
        with atomic_write(output, "w") as handle:
            np.savetxt(handle, value.post_processing, delimiter=",", fmt="%.17g")
    return {
        "delta": delta,
        "theorem3": theorem3_bound(channel, delta),
        "cvar": cvar_bound(channel, delta),
        "exact": value.upper,
        "exact_lower": value.lower,
        "quantile": leakage_quantile(channel, delta),
        "binary": binary_envelope(channel, delta),
    }


def _curve(channel: Channel, found: EnvelopeCurve) -> dict[str, Any]:
    bounds = {"theorem3": theorem3_bound, "cvar": cvar_bound, "binary": binary_envelope}
    deltas = found.deltas.tolist()
    return {
        "delta": deltas,
        "exact": found.upper.tolist(),
        "exact_lower": found.lower.tolist(),
        **{name: [bound(channel, point) for point in deltas] for name, bound in bounds.items()},
        "plateaus": [
            {"level": plateau.level, "start": plateau.start, "end": plateau.end}
            for plateau in found.plateaus
        ],
    }


_PLOT_KINDS = ("png", "pdf", "svg")
_LABELS = {
    "theorem3": "Theorem 3",
    "cvar": "CVaR bound",
    "exact": "exact envelope",
    "binary": "binary envelope",
}


def _plot(name: str, curve: dict[str, Any], path: str) -> None:
    from pmldesign.plots import envelope_figure

    curves: dict[str, Array] = {label: np.array(curve[key]) for key, label in _LABELS.items()}
    figure = envelope_figure(f"PML envelope of {name}", np.array(curve["delta"]), curves)
    with atomic_write(path, "wb") as handle:
        figure.savefig(handle, format=path.rpartition(".")[2].lower(), dpi=150)


def _table(report: dict[str, Any]) -> str:
    lines = [
        f"{report['channel']}: {report['secrets']} values of the secret, "
        f"{report['outputs']} outputs; leakage in nats",
        "",
        f"{'maximal leakage':<28}{report['maximal_leakage']:>12.6f}",
        f"{'largest leakage of an output':<28}{report['largest_leakage']:>12.6f}",
    ]
    if "delta" in report:
        rows = {
            "Theorem 3, from above": "theorem3",
            "CVaR bound, from above": "cvar",
            "exact envelope": "exact",
            "quantile, from below": "quantile",
            "binary, from below": "binary",
        }
        lines += ["", f"at delta = {report['delta']:g}"]
        lines += [f"{label:<28}{report[key]:>12.6f}" for label, key in rows.items()]
    if "curve" in report:
        lines += ["", *_curve_lines(report["curve"])]
    return "\n".join(lines)


def _curve_lines(curve: dict[str, Any]) -> list[str]:
    columns = ("delta", "binary", "exact", "cvar", "theorem3")
    lines = ["".join(f"{name:>12}" for name in columns)]
    lines += [
        f"{row[0]:>12.4g}" + "".join(f"{value:>12.6f}" for value in row[1:])
        for row in zip(*(curve[name] for name in columns), strict=True)
    ]
    lines += ["", "constant at         for delta from          to"]
    lines += [
        f"{plateau['level']:>11.6f}{plateau['start']:>23.6f}{plateau['end']:>12.6f}"
        for plateau in curve["plateaus"]
    ]
    return lines
