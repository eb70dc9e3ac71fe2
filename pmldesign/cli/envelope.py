"""pmldesign envelope CHANNEL --prior FILE --failure-probability 0.1 [--curve] [--plot FILE]."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from pmldesign._version import FORMAT, version
from pmldesign.cli.documents.document import Document, Section, Table
from pmldesign.cli.options.fields import (
    Outputs,
    WholeRange,
    argument,
    as_command,
    drawing,
    ends,
    group,
    option,
)
from pmldesign.envelope import (
    Channel,
    EnvelopeCurve,
    binary_envelope,
    cvar_bound,
    envelope_curve,
    exact_envelope,
    leakage_quantile,
    maximal_leakage,
    maximal_leakage_bound,
    pointwise_leakage,
)
from pmldesign.files import atomic_write, load_channel
from pmldesign.privacy.outward import to_places
from pmldesign.verifier.report import KEY, OBJECT, digest_of_object

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("delta", "binary", "exact", "cvar", "maximal")
LABELS = {
    "maximal": "Theorem 3, from above",
    "cvar": "CVaR bound, from above",
    "exact": "exact envelope",
    "quantile": "quantile, from below",
    "binary": "binary envelope, from below",
}
CURVES = {
    "maximal": "Theorem 3",
    "cvar": "CVaR bound",
    "exact": "exact envelope",
    "binary": "binary envelope",
}
"""What a picture calls them."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    channel: str = argument()
    prior: str = option(
        "Distribution of the secret: a file, probabilities such as 0.2,0.3,0.5, or uniform.",
        required=True,
        metavar="FILE|P,...",
    )
    failure_probability: float | None = option(
        "Probability with which more may leak, in (0, 1).", metavar="NUMBER"
    )
    curve: bool = option("Compute the envelope at many failure probabilities, and its plateaus.")
    points: int = option(
        "Number of failure probabilities of the curve.", default=19, type=WholeRange(2, 500)
    )
    outputs: Outputs = group(plot=drawing("the envelope"))
    output: Path | None = option(
        "File for the worst post-processing at --failure-probability, a row per output: .csv.",
        "-o",
        "--output",
        check=ends("a post-processing", ".csv"),
    )
    certificate: Path | None = option(
        "File for a proof of the envelope at --failure-probability, for `pmldesign verify`: .json.",
        check=ends("a certificate", ".json"),
    )


@as_command("envelope", Asked)
def command(asked: Asked) -> None:
    """Compute the leakage envelope of CHANNEL, which holds whatever is done with the output.

    The leakage exceeds the envelope with at most --failure-probability. CHANNEL is a file (.npy,
    .npz, .csv, .mtx) with a row P(. | x) for each value x of the secret, - for standard input, or
    a name: rr:5,eps=1, extremal:5,eps=0.1, laplace:5,scale=1,cells=8, gaussian:5,scale=1,cells=8.

    Example: pmldesign envelope rr:5,eps=1 --prior uniform --failure-probability 0.1
    """
    delta = asked.failure_probability
    curve = asked.curve or asked.outputs.plot is not None
    if delta is None and not curve:
        raise click.UsageError("add --failure-probability 0.1, or --curve for the whole curve")
    if asked.output is not None and delta is None:
        raise click.UsageError("--output needs --failure-probability; add for example 0.1")
    if asked.certificate is not None and delta is None:
        raise click.UsageError("--certificate needs --failure-probability; add for example 0.1")
    loaded = load_channel(asked.channel, asked.prior)
    data: dict[str, Any] = {
        "channel": asked.channel,
        "secrets": loaded.shape[0],
        "outputs": loaded.shape[1],
        "maximal_leakage": maximal_leakage(loaded),
        "largest_leakage": float(pointwise_leakage(loaded).max()),
    }
    if delta is not None:
        data |= _at(loaded, delta, asked.output)
    if asked.certificate is not None:
        _certify(data, loaded, asked.certificate)
    if curve:
        deltas = np.arange(1, asked.points + 1) / (asked.points + 1)
        data["curve"] = _curve(loaded, envelope_curve(loaded, deltas))
    asked.outputs.deliver(_document(data))


def _certify(data: Mapping[str, Any], channel: Channel, path: Path) -> None:
    """Write the channel, both bounds, and what proves them."""
    value = exact_envelope(channel, data["delta"])
    content: dict[str, Any] = {
        "format": FORMAT,
        "pmldesign": version("pmldesign"),
        "channel": data["channel"],
        "matrix": channel.matrix.tolist(),
        "prior": channel.prior.tolist(),
        "maximal_leakage": data["maximal_leakage"],
        "largest_leakage": data["largest_leakage"],
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
        "maximal": maximal_leakage_bound(channel, delta),
        "cvar": cvar_bound(channel, delta),
        "exact": value.upper,
        "exact_lower": value.lower,
        "quantile": leakage_quantile(channel, delta),
        "binary": binary_envelope(channel, delta),
    }


def _curve(channel: Channel, curve: EnvelopeCurve) -> dict[str, Any]:
    bounds = {"maximal": maximal_leakage_bound, "cvar": cvar_bound, "binary": binary_envelope}
    deltas = curve.deltas.tolist()
    return {
        "delta": deltas,
        "exact": curve.upper.tolist(),
        "exact_lower": curve.lower.tolist(),
        **{name: [bound(channel, point) for point in deltas] for name, bound in bounds.items()},
        "plateaus": [asdict(plateau) for plateau in curve.plateaus],
    }


def _document(data: Mapping[str, Any]) -> Document:
    """The numbers at one delta, the curve, or both."""
    facts = [
        ("channel", data["channel"]),
        ("values of the secret", str(data["secrets"])),
        ("outputs", str(data["outputs"])),
        ("maximal leakage", f"{data['maximal_leakage']:.6f} nats"),
        ("largest leakage of an output", f"{data['largest_leakage']:.6f} nats"),
    ]
    if "delta" in data:
        facts.append(("delta", f"{data['delta']:g}"))
        facts += [(label, f"{_bound(name, data[name])} nats") for name, label in LABELS.items()]
    table = _table(data)
    summary = [Section(facts=facts)]
    if "curve" in data:
        summary.append(Section(tables=[table, _plateaus(data["curve"]["plateaus"])]))
    return Document(
        data=data,
        summary=summary,
        table=table,
        picture=lambda: _picture(f"PML envelope of {data['channel']}", data["curve"]),
    )


def _table(data: Mapping[str, Any]) -> Table:
    """A row for each delta, its bounds rounded outwards."""
    rows: list[dict[str, float]]
    if "curve" in data:
        columns = {name: data["curve"][name] for name in (*COLUMNS, "exact_lower")}
        values = zip(*columns.values(), strict=True)
        rows = [dict(zip(columns, row, strict=True)) for row in values]
    else:
        rows = [{name: data[name] for name in (*COLUMNS, "exact_lower", "quantile")}]
    cells = [
        [f"{row['delta']:.4g}", *(_bound(name, row[name]) for name in COLUMNS[1:])] for row in rows
    ]
    return Table(COLUMNS, cells, records=rows)


def _plateaus(plateaus: list[dict[str, float]]) -> Table:
    cells = [[f"{one[key]:.6f}" for key in ("level", "start", "end")] for one in plateaus]
    return Table(("constant at", "from delta", "to delta"), cells)


def _picture(title: str, curve: Mapping[str, Any]) -> Figure:
    from pmldesign.plots import envelope_figure

    curves = {label: np.array(curve[name]) for name, label in CURVES.items()}
    return envelope_figure(title, np.array(curve["delta"]), curves)


def _bound(name: str, value: float) -> str:
    return to_places(value, up=name not in ("quantile", "binary"))
