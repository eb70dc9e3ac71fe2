"""The entry of a ledger for the public registry of deployments of differential privacy.

Its files are YAML, of which JSON is a part (github.com/opendp/deployments-registry-data). What a
ledger knows is filled in; what people have to say is left empty. Nothing of the data is in it, but
the names of queries are: look at it before it is handed in.

References:
    Nanayakkara, Ghazi and Vadhan (2025), Practitioners' perspectives on a differential privacy
    deployment registry.
"""

from __future__ import annotations

import math
from typing import Any

from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least, float_above
from pmldesign.release.costs.ledger import Account
from pmldesign.strategies.whole.lattice import SENSITIVITY_ROUNDING


def registry_entry(account: Account) -> dict[str, Any]:
    """What the releases of a ledger promise together, in the form of the registry."""
    spent, delta = account.spent, account.budget.delta
    epsilon = float_above("epsilon", spent.pure) if spent.pure else 0.0
    parameters = {"epsilon": float(at_least(epsilon))}
    if spent.squared_ratio:
        mu = math.sqrt(spent.squared_ratio) * (1 + SENSITIVITY_ROUNDING)
        rest = delta if not spent.delta else math.nextafter(delta - float(spent.delta), 0.0)
        epsilon += PrivacyCurve(Noise.GAUSSIAN, mu).epsilon(rest)
    if spent.squared_ratio or spent.delta:
        parameters = {"epsilon": float(at_least(epsilon)), "delta": delta}
    dates = [entry["date"] for entry in account.releases if "date" in entry]
    asked = "; ".join(dict.fromkeys(entry["release"] for entry in account.releases))
    one = len(account.releases) == 1
    replaced = str(account.head["unit"]).startswith("replace")
    product: dict[str, Any] = {
        "name": account.people,
        "data_curators": [],
        "intended_use": "",
        "data_product_type": "Summary statistics",
        "data_product_region": "",
        "description": f"Counts: {asked}"[:1000],
        "publication_date": min(dates, default=""),
        "data_product_sector": "",
    }
    flavor = {
        "name": "Approximate DP" if "delta" in parameters else "Pure DP",
        "data_domain": "",
        "unprotected_quantities": "The number of records." if replaced else "None.",
    }
    loss = {
        "privacy_unit": "",
        "privacy_unit_description": f"{account.head['unit']}",
        "privacy_parameters": parameters,
    }
    model = {
        "model_name": "Central",
        "release_type": "One release" if one else "Many releases",
        "access_type": "Non-interactive",
    }
    accounting = {
        "post_processing": "",
        "composition": "Epsilons of Laplace noise add up; Gaussian noise composes into Gaussian"
        " noise with the sum of squares of mu. The budget was fixed before the first release.",
    }
    implementation = {
        "pre_processing_eda_hyperparameter_tuning": "",
        "mechanisms": "Matrix mechanisms with discrete Laplace or discrete Gaussian noise on"
        " integers, drawn by OpenDP (pmldesign).",
        "justification": "",
    }
    deployment = {"product": product, "dp_flavor": flavor, "privacy_loss": loss, "model": model}
    deployment |= {"accounting": accounting, "implementation": implementation}
    return {"url_slug": "", "status": "Draft", "tier": 2, "deployment": deployment}
