"""pmldesign ledger FILE."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from pmldesign.cli.documents.document import Cell, Document, Section, Table
from pmldesign.cli.options.fields import Outputs, argument, as_command, group, option
from pmldesign.privacy.outward import at_least, at_most, shortest

if TYPE_CHECKING:
    from pmldesign.releases.costs.ledger import Account
    from pmldesign.releases.costs.left import Left


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    ledger: str = argument(metavar="FILE|URL")
    people: str | None = option("Whose ledger, in a database that has several.", metavar="NAME")
    delta: float | None = option("At which epsilon of Gaussian noise is shown; that of the budget.")
    export: bool = option("Print the ledger with exact costs as text, a JSON object per line.")
    outputs: Outputs = group(plot=None)


@as_command("ledger", Asked)
def command(asked: Asked) -> None:
    """Show what releases about some people have cost, and what is left.

    FILE is a ledger of `pmldesign release --ledger`, or the address of a database. It is
    confidential: it says what was asked about whom.
    """
    from pmldesign.arguments import probability
    from pmldesign.releases.costs.ledger import read_ledger

    if asked.delta is not None:
        probability("--delta", asked.delta)
    account = read_ledger(asked.ledger, asked.people)
    if asked.export:
        click.echo("".join(json.dumps(line) + "\n" for line in account.lines()), nl=False)
    else:
        asked.outputs.deliver(_document(account, account.left(asked.delta)))


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
    pure, mu = (at_least(spent[name]) for name in ("epsilon", "mu"))
    drafts = ""
    if account.spent.delta:
        spent["delta"] = float(account.spent.delta)
        drafts = f", delta {at_least(spent['delta'])} with drafts of schemas"
    facts = [
        ("people", account.people),
        ("unit", str(account.unit)),
        ("budget", budget_text(account.budget)),
        ("spent", f"epsilon {pure} with Laplace noise, mu {mu} with Gaussian noise{drafts}"),
        *_left_facts(left),
    ]
    header = ("date", "release", "epsilon", "mu")
    table = Table(header, rows, texts=("release",), records=records)
    data = {
        "people": account.people,
        "unit": asdict(account.unit),
        "budget": asdict(account.budget),
        "releases": records,
        "spent": spent,
        "left": asdict(left) | {"rho": left.rho},
    }
    return Document(data, [Section(tables=[table] if rows else []), Section(facts=facts)], table)


def _left_facts(left: Left) -> list[tuple[str, str]]:
    """The largest releases that still fit."""
    if left.plan is not None:
        return [("left", left.plan)]
    facts = [("left", f"epsilon {at_most(left.epsilon)} with Laplace noise")]
    if left.delta > 0:
        at = f"epsilon {at_most(left.gaussian_epsilon)} at delta {shortest(left.delta)}"
        mu, rho = at_most(left.mu), at_most(left.rho)
        facts.append(("or", f"mu {mu} with Gaussian noise: rho {rho}, {at}"))
    return facts
