"""Checks the claims of files, by code that shares nothing with the solvers.

Nothing here imports the solvers, the strategies or the privacy of this project:
`docs/guides/verification.md` lists the definitions that it is written from. Numbers are balls
(python-flint).
"""

from importlib import import_module
from typing import Any

from pmldesign.verifier.report import Check as Check
from pmldesign.verifier.report import Verdict as Verdict
from pmldesign.verifier.report import Verification as Verification

NAMES = {
    "balls": "power_norm",
    "forms.persons": "Persons",
    "forms.products": "distances farthest",
    "forms.registry": "FORMS",
    "forms.structured": "discrete_deviation discrete_error laplace_moment own_unit",
    "forms.table_bounds": "SHARES lower_bound",
    "forms.tables": "measured_of",
    "forms.trees": "ReadTree mass_of_pairs",
    "forms.written": "centred",
    "guarantees": "KINDS gaussian_profile kind_of sentence_of",
    "queries": "Queries Table",
    "report": "Checks KEY OBJECT digest_of digest_of_object",
    "rounding": "gamma",
    "strategies": "form_of",
    "streams.drawn_steps": "sampled_delta",
    "streams.participation": "Pattern",
    "streams.resolvents": "ReadChain",
    "streams.running_sums": "check_intervals",
    "verification": "read_archive read_object",
}
"""What others use of each module, loaded when it is first used."""


def __getattr__(name: str) -> Any:
    for module, names in NAMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
