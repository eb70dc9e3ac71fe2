"""pmldesign plan "4*laplace:0.1 + 3*gaussian:0.5,1e-7" --delta 1e-6."""

from __future__ import annotations

import math
from collections import Counter

import click

from pmldesign.cli.options import outputs
from pmldesign.cli.terminal.show import facts, print_json
from pmldesign.privacy.digits import at_least, shortest


@click.command(name="plan")
@click.argument("plan")
@click.option(
    "--delta",
    type=float,
    default=1e-6,
    show_default=True,
    help="At which epsilon is shown; 0 for Laplace noise alone.",
)
@outputs.json_option
def command(plan: str, delta: float, as_json: bool) -> None:
    """Show what several releases cost together whose noise is fixed in advance.

    PLAN has a term for each release, joined by +: laplace:EPSILON, gaussian:EPSILON,DELTA or
    gaussian:mu=MU, with a count in front: 4*laplace:0.1 + 3*gaussian:0.5,1e-7. With `pmldesign
    release --ledger FILE --budget epsilon=E,delta=D --plan PLAN` a ledger holds them to it.
    """
    from pmldesign.privacy.noise import Noise
    from pmldesign.release.costs.plan import parse_plan, without_plan

    planned = parse_plan(plan)
    together, chosen_later = planned.epsilon(delta), without_plan(planned, delta)
    if as_json:
        releases = [
            {"noise": part.noise.value, "ratio": part.ratio, "count": count}
            for part, count in Counter(planned.releases).items()
        ]
        costs = {"epsilon": together, "epsilon_without_plan": chosen_later}
        print_json({"releases": releases, "delta": delta} | costs)
        return
    laplace = sum(part.noise is Noise.LAPLACE for part in planned.releases)
    kinds = {"laplace": laplace, "gaussian": len(planned.releases) - laplace}
    counts = " and ".join(f"{count} with {kind} noise" for kind, count in kinds.items() if count)
    at = f"at delta {shortest(delta)}, the noise"
    lines = [
        ("plan", planned.text),
        ("releases", counts),
        ("together", f"epsilon {at_least(together)} {at} fixed in advance"),
    ]
    if math.isfinite(chosen_later):
        lines.append(("otherwise", f"epsilon {at_least(chosen_later)} {at} chosen later"))
    facts(lines)
