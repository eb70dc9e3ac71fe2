"""pmldesign ledger show FILE | plan PLAN | export FILE."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from pmldesign.cli.documents.document import Cell, Document, Section, Table, print_json
from pmldesign.cli.options.fields import Outputs, argument, as_command, group, option
from pmldesign.cli.options.sections import CommandGroup
from pmldesign.privacy.outward import at_least, at_most, shortest

if TYPE_CHECKING:
    from pmldesign.releases.costs.ledger import Account
    from pmldesign.releases.costs.left import Left

POPULATION = "Name of the population, for a database that holds several ledgers."


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The options of a ledger that is shown."""

    ledger: str = argument(metavar="FILE|URL")
    population: str | None = option(POPULATION, metavar="NAME")
    report_delta: float | None = option(
        "Delta at which the epsilon of Gaussian noise is reported, in (0, 1). Default: the delta of"
        " the budget."
    )
    outputs: Outputs = group(plot=None)


@as_command("show", Shown)
def show(asked: Shown) -> None:
    """Show the privacy cost of the releases in a ledger, and the remaining budget.

    FILE is a ledger written by `pmldesign release --ledger`, URL the address of a database. A
    ledger is confidential: it contains the queries and the name of the population.

    Example: pmldesign ledger show ledger.db
    """
    from pmldesign.arguments import probability
    from pmldesign.releases.costs.ledger import read_ledger

    if asked.report_delta is not None:
        probability("--report-delta", asked.report_delta)
    account = read_ledger(asked.ledger, asked.population)
    asked.outputs.deliver(_document(account, account.left(asked.report_delta)))


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The options of an export."""

    ledger: str = argument(metavar="FILE|URL")
    population: str | None = option(POPULATION, metavar="NAME")
    outputs: Outputs = group(plot=None, table=None)


@as_command("export", Exported)
def export(asked: Exported) -> None:
    """Print a ledger with exact costs as text: one JSON object per line.

    FILE or URL is a ledger as for `pmldesign ledger show`. The keys of the ledger are left out.

    Example: pmldesign ledger export ledger.db > ledger.txt
    """
    from pmldesign.releases.costs.ledger import read_ledger

    lines = [*read_ledger(asked.ledger, asked.population).lines()]
    if asked.outputs.json:
        print_json(lines)
    else:
        click.echo("".join(json.dumps(line) + "\n" for line in lines), nl=False)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The options of a plan."""

    plan: str = argument()
    report_delta: float = option(
        "Delta at which epsilon is reported, in [0, 1); 0 if all noise is Laplace.", default=1e-6
    )
    outputs: Outputs = group(plot=None, table=None)


@as_command("plan", Planned)
def plan(asked: Planned) -> None:
    """Show the total cost of several releases whose noise is fixed in advance.

    PLAN has a term for each release, joined by +: laplace:EPSILON, gaussian:EPSILON,DELTA or
    gaussian:mu=MU, optionally with a count and *. `pmldesign release --ledger FILE --budget
    epsilon=E,delta=D --plan PLAN` begins a ledger that accepts exactly these releases.

    Example: pmldesign ledger plan "4*laplace:0.1 + 3*gaussian:0.5,1e-7"
    """
    from pmldesign.privacy.noise import Noise
    from pmldesign.releases.costs.plan import Plan, without_plan

    planned, delta = Plan.parse(asked.plan), asked.report_delta
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
        ("together", f"epsilon {at_least(together, 4)} {at} fixed in advance"),
        ("plan", planned.text),
        ("releases", counts),
    ]
    if math.isfinite(chosen_later):
        facts.insert(1, ("otherwise", f"epsilon {at_least(chosen_later, 4)} {at} chosen later"))
    data = {"releases": releases, "delta": delta} | costs
    asked.outputs.deliver(Document(data, [Section(facts=facts)]))


def _document(account: Account, left: Left) -> Document:
    from pmldesign.releases.costs.budget import budget_text

    records: list[dict[str, Cell]] = [
        {
            "date": payment.day,
            "release": payment.released,
            "epsilon": float(payment.cost.pure),
            "mu": math.sqrt(payment.cost.squared_ratio),
        }
        for payment in account.payments
    ]
    rows: list[list[Cell]] = [[cell or None for cell in row.values()] for row in records]
    spent = {"epsilon": float(account.spent.pure), "mu": math.sqrt(account.spent.squared_ratio)}
    pure, mu = (at_least(spent[name], 4) for name in ("epsilon", "mu"))
    drafts = ""
    if account.spent.delta:
        spent["delta"] = float(account.spent.delta)
        drafts = f", delta {at_least(spent['delta'], 4)} with drafts of schemas"
    facts = [
        *_left_facts(left),
        ("spent", f"epsilon {pure} with Laplace noise, mu {mu} with Gaussian noise{drafts}"),
        ("budget", budget_text(account.budget)),
        ("population", account.population),
        ("unit", str(account.unit)),
    ]
    header = ("date", "release", "epsilon", "mu")
    table = Table(header, rows, texts=("release",), records=records)
    data = {
        "population": account.population,
        "unit": asdict(account.unit),
        "budget": asdict(account.budget),
        "releases": records,
        "spent": spent,
        "left": asdict(left) | {"rho": left.rho},
    }
    return Document(data, [Section(facts=facts), Section(tables=[table] if rows else [])], table)


def _left_facts(left: Left) -> list[tuple[str, str]]:
    """The largest releases that still fit."""
    if left.plan is not None:
        return [("remaining", left.plan)]
    facts = [("remaining", f"epsilon {at_most(left.epsilon, 4)} with Laplace noise")]
    if left.delta > 0:
        at = f"epsilon {at_most(left.gaussian_epsilon, 4)} at delta {shortest(left.delta)}"
        mu, rho = at_most(left.mu, 4), at_most(left.rho, 4)
        facts.append(("or", f"mu {mu} with Gaussian noise: rho {rho}, {at}"))
    return facts


command = CommandGroup(
    "ledger",
    commands=[show, plan, export],
    help="Show the privacy cost of releases, and plan further ones.",
)
