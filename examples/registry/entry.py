"""A draft for the public registry of deployments of differential privacy, from a ledger.

    pmldesign ledger show budget.db --json | python examples/registry/entry.py > entry.yaml

Its files are YAML, of which JSON is a part (github.com/opendp/deployments-registry-data). The facts
of the ledger are filled in; the rest is left empty for you. No data are in it, but the names of the
queries are: read it before you hand it in.

References:
    Nanayakkara, Ghazi and Vadhan (2025), Practitioners' perspectives on a differential privacy
    deployment registry.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least


def entry(ledger: dict[str, Any]) -> dict[str, Any]:
    """What the releases of a ledger promise together, in the form of the registry."""
    spent, delta = ledger["spent"], ledger["budget"]["delta"]
    epsilon, drafts = spent["epsilon"] * (1 + 1e-12), spent.get("delta", 0.0) * (1 + 1e-12)
    if spent["mu"]:
        rest = math.nextafter(delta - drafts, 0.0)
        epsilon += PrivacyCurve(Noise.GAUSSIAN, spent["mu"] * (1 + 1e-12)).epsilon(rest)
    parameters = {"epsilon": float(at_least(epsilon))}
    if spent["mu"] or drafts:
        parameters["delta"] = delta
    unit = ledger["unit"]
    asked = "; ".join(dict.fromkeys(release["release"] for release in ledger["releases"]))
    product = {
        "name": ledger["population"],
        "data_curators": [],
        "intended_use": "",
        "data_product_type": "Summary statistics",
        "data_product_region": "",
        "description": f"Counts: {asked}"[:1000],
        "publication_date": min((release["date"] for release in ledger["releases"]), default=""),
        "data_product_sector": "",
    }
    replaced = unit["neighbours"] == "replace"
    flavor = {
        "name": "Approximate DP" if "delta" in parameters else "Pure DP",
        "data_domain": "",
        "unprotected_quantities": "The number of records." if replaced else "None.",
    }
    loss = {
        "privacy_unit": ", ".join(unit["person"]),
        "privacy_unit_description": json.dumps(unit),
        "privacy_parameters": parameters,
    }
    model = {
        "model_name": "Central",
        "release_type": "One release" if len(ledger["releases"]) == 1 else "Many releases",
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


if __name__ == "__main__":
    print(json.dumps(entry(json.load(sys.stdin)), indent=2))
