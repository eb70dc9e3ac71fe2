"""pmldesign envelope CHANNEL --prior FILE --delta 0.1 [--curve] [--plot FILE]."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

from pmldesign.cli.options import common, outputs
from pmldesign.cli.pages.comparison import envelope_page
from pmldesign.cli.reports.envelope import cells_of, curves_of, records_of, show
from pmldesign.cli.terminal.show import print_json
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
    "--points",
    type=click.IntRange(2, 500),
    default=19,
    show_default=True,
    help="Deltas of the curve.",
)
@common.add_options([outputs.plot_option("it"), outputs.report_option, *outputs.table_options])
@outputs.json_option
@common.file_option(
    "-o",
    "--output",
    help="Write the worst post-processing at --delta, a row for each output: .csv.",
)
@common.file_option(
    "--certificate",
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
    csv_path: Path | None,
    latex: Path | None,
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
    if output is not None:
        check_writable(output, "a post-processing", ".csv")
    if certificate is not None:
        check_writable(certificate, "a certificate", ".json")
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
        from pmldesign.plots import envelope_figure, save

        title = f"PML envelope of {channel}"
        deltas = np.array(document["curve"]["delta"])
        save(envelope_figure(title, deltas, curves_of(document)), plot)
    if report is not None:
        envelope_page(report, document, curves_of(document))
    outputs.write_tables(csv_path, latex, records_of(document), *cells_of(document))
    if as_json:
        print_json(document)
    else:
        show(document)


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
        "plateaus": [asdict(plateau) for plateau in curve.plateaus],
    }
