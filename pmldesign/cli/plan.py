"""pmldesign plan "4*laplace:0.1 + 3*gaussian:0.5,1e-7" --delta 1e-6."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from pmldesign.cli.documents.document import Document, Section
from pmldesign.cli.options.fields import Outputs, argument, as_command, group, option
from pmldesign.privacy.outward import at_least, shortest


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    plan: str = argument()
    delta: float = option("At which epsilon is shown; 0 for Laplace noise alone.", default=1e-6)
    outputs: Outputs = group(plot=None, table=None)


@as_command("plan", Asked)
def command(asked: Asked) -> None:
    """Show what several releases cost together whose noise is fixed in advance.

    PLAN has a term for each release, joined by +: laplace:EPSILON, gaussian:EPSILON,DELTA or
    gaussian:mu=MU, with a count in front: 4*laplace:0.1 + 3*gaussian:0.5,1e-7. With `pmldesign
    release --ledger FILE --budget epsilon=E,delta=D --plan PLAN` a ledger holds them to it.
    """
    from pmldesign.privacy.noise import Noise
    from pmldesign.releases.costs.plan import Plan, without_plan

    planned, delta = Plan.parse(asked.plan), asked.delta
    together, chosen_later = planned.epsilon(delta), without_plan(planned, delta)
    releases = [
        {"noise": part.noise.value, "ratio": part.ratio, "count": count}
        for part, count in Counter(planned.releases).items()
    ]
    costs = {"epsilon": together, "epsilon_without_plan": chosen_later}
    laplace = sum(part.noise is Noise.LAPLACE for part in planned.releases)
    kinds = {"laplace": laplace, "gaussian": len(planned.releases) - laplace}
    counts = " and ".join(f"{count} with {kind} noise" for kind, count in kinds.items() if count)
    at = f"at delta {shortest(delta)}, the noise"
    facts = [
        ("plan", planned.text),
        ("releases", counts),
        ("together", f"epsilon {at_least(together)} {at} fixed in advance"),
    ]
    if math.isfinite(chosen_later):
        facts.append(("otherwise", f"epsilon {at_least(chosen_later)} {at} chosen later"))
    data = {"releases": releases, "delta": delta} | costs
    asked.outputs.deliver(Document(data, [Section(facts=facts)]))
