"""pmldesign envelope CHANNEL --prior FILE --delta 0.1 [--curve] [--plot FILE]."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

from pmldesign.cli.reports.pages import check_report, envelope_page, report_option
from pmldesign.cli.terminal.show import facts, print_json, table
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
from pmldesign.errors import FileError
from pmldesign.files import atomic_write, check_writable, load_channel
from pmldesign.verify.digest import KEY, OBJECT, digest_of_object


@click.command(name="envelope")
@click.argument("channel")
@click.option(
    "--prior",
    required=True,
    metavar="FILE",
    help="Distribution of the secret: a file, probabilities like 0.2,0.3,0.5, or uniform.",
)
@click.option("--delta", type=float, help="Probability with which more may leak, in (0, 1).")
@click.option("--curve", is_flag=True, help="The envelope at many deltas, and its plateaus.")
@click.option(
    "--points", type=click.IntRange(2), default=19, show_default=True, help="Deltas of the curve."
)
@click.option(
    "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw it: .png, .pdf, .svg."
)
@report_option
@click.option("--json", "as_json", is_flag=True, help="JSON instead of tables.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the worst post-processing at --delta, a row for each output: .csv.",
)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what proves the envelope at --delta, for `pmldesign verify`: .json.",
)
def command(
    channel: str,
    prior: str,
    delta: float | None,
    curve: bool,
    points: int,
    plot: Path | None,
    report: Path | None,
    as_json: bool,
    output: Path | None,
    certificate: Path | None,
) -> None:
    """Leakage of a finite mechanism that holds with probability 1 - delta, whatever is done next.

    CHANNEL is a file (.npy, .npz, .csv, .mtx) with one row P(. | x) for each value x of the
    secret, "-" for standard input, or a name: rr:5,eps=1  extremal:5,eps=0.1
    laplace:5,scale=1,cells=8  gaussian:5,scale=1,cells=8
    """
    if delta is None and not (curve or plot or report):
        raise click.UsageError("give --delta, or ask for the whole curve with --curve or --plot")
    if output is not None and delta is None:
        raise click.UsageError("--output writes the post-processing at one delta: give --delta")
    if certificate is not None and delta is None:
        raise click.UsageError("--certificate proves the envelope at one delta: give --delta")
    _check_paths(plot, output, certificate)
    check_report(report)
    loaded = load_channel(channel, prior)
    document: dict[str, Any] = {
        "channel": channel,
        "secrets": loaded.shape[0],
        "outputs": loaded.shape[1],
        "maximal_leakage": maximal_leakage(loaded),
        "largest_leakage": float(pointwise_leakage(loaded).max()),
    }
    if delta is not None:
        document |= _at(loaded, delta, output)
    if certificate is not None:
        _certify(document, loaded, certificate)
    if curve or plot or report:
        document["curve"] = _curve(
            loaded, envelope_curve(loaded, np.arange(1, points + 1) / (points + 1))
        )
    if plot is not None:
        _plot(document, plot)
    if report is not None:
        envelope_page(report, document, _curves(document))
    if as_json:
        print_json(document)
    else:
        _show(document)


def _check_paths(plot: Path | None, output: Path | None, certificate: Path | None) -> None:
    if plot is not None:
        from pmldesign.plots import check_plot_path

        check_plot_path(plot)
    if output is not None:
        if output.suffix.lower() != ".csv":
            raise FileError(f"cannot write {str(output)!r}: a post-processing ends in .csv")
        check_writable(output)
    if certificate is not None:
        if certificate.suffix.lower() != ".json":
            raise FileError(f"cannot write {str(certificate)!r}: a certificate ends in .json")
        check_writable(certificate)


def _certify(report: dict[str, Any], channel: Channel, path: Path) -> None:
    """Write the channel, both bounds, and what proves them."""
    value = exact_envelope(channel, report["delta"])
    content: dict[str, Any] = {
        "format": 1,
        "pmldesign": version("pmldesign"),
        "channel": report["channel"],
        "matrix": channel.matrix.tolist(),
        "prior": channel.prior.tolist(),
        "maximal_leakage": report["maximal_leakage"],
        "largest_leakage": report["largest_leakage"],
        "delta": value.delta,
        "lower": value.lower,
        "upper": value.upper,
        "post_processing": value.post_processing.tolist(),
        "dual": value.dual.tolist(),
        KEY: {},
    }
    content[KEY] = {OBJECT: digest_of_object(content)}
    with atomic_write(path, "w") as handle:
        handle.write(json.dumps(content, allow_nan=False) + "\n")


def _at(channel: Channel, delta: float, output: Path | None) -> dict[str, Any]:
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


def _curve(channel: Channel, curve: EnvelopeCurve) -> dict[str, Any]:
    bounds = {"theorem3": theorem3_bound, "cvar": cvar_bound, "binary": binary_envelope}
    deltas = curve.deltas.tolist()
    return {
        "delta": deltas,
        "exact": curve.upper.tolist(),
        "exact_lower": curve.lower.tolist(),
        **{name: [bound(channel, point) for point in deltas] for name, bound in bounds.items()},
        "plateaus": [
            {"level": plateau.level, "start": plateau.start, "end": plateau.end}
            for plateau in curve.plateaus
        ],
    }


def _plot(report: dict[str, Any], path: Path) -> None:
    from pmldesign.plots import plot_envelope

    deltas = np.array(report["curve"]["delta"])
    plot_envelope(f"PML envelope of {report['channel']}", deltas, _curves(report), path)


def _curves(report: dict[str, Any]) -> dict[str, Any]:
    """The curves by the names that a picture has for them."""
    labels = {
        "theorem3": "Theorem 3",
        "cvar": "CVaR bound",
        "exact": "exact envelope",
        "binary": "binary envelope",
    }
    return {label: np.array(report["curve"][key]) for key, label in labels.items()}


def _show(report: dict[str, Any]) -> None:
    lines = [
        ("channel", report["channel"]),
        ("values of the secret", str(report["secrets"])),
        ("outputs", str(report["outputs"])),
        ("maximal leakage", _nats(report["maximal_leakage"])),
        ("largest leakage of an output", _nats(report["largest_leakage"])),
    ]
    if "delta" in report:
        lines += [
            ("delta", f"{report['delta']:g}"),
            ("Theorem 3, from above", _nats(report["theorem3"])),
            ("CVaR bound, from above", _nats(report["cvar"])),
            ("exact envelope", _nats(report["exact"])),
            ("quantile, from below", _nats(report["quantile"])),
            ("binary envelope, from below", _nats(report["binary"])),
        ]
    facts(lines)
    if "curve" not in report:
        return
    curve = report["curve"]
    columns = ("delta", "binary", "exact", "cvar", "theorem3")
    rows = zip(*(curve[name] for name in columns), strict=True)
    click.echo()
    table(columns, [[f"{row[0]:.4g}", *(f"{value:.6f}" for value in row[1:])] for row in rows])
    click.echo()
    table(
        ("constant at", "from delta", "to delta"),
        [[f"{p[key]:.6f}" for key in ("level", "start", "end")] for p in curve["plateaus"]],
    )


def _nats(value: float) -> str:
    return f"{value:.6f} nats"
