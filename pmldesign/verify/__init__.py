"""Checks what files claim, by code that shares nothing with the solvers.

Nothing here imports the solvers, the strategies or the privacy of this project: `docs/verify.md`
lists the definitions that it is written from. Numbers are balls (python-flint).
"""

from importlib import import_module
from typing import Any

from pmldesign.verify.report import Check as Check
from pmldesign.verify.report import Verdict as Verdict
from pmldesign.verify.report import Verification as Verification

NAMES = {
    "arithmetic.discrete": "discrete_deviation discrete_error own_unit",
    "arithmetic.intervals": "power_norm",
    "arithmetic.rounding": "gamma",
    "forms.far_columns": "distances farthest",
    "forms.persons": "Persons",
    "forms.registry": "FORMS form_of",
    "forms.structured": "laplace_moment",
    "forms.written": "centred",
    "guarantees": "KINDS kind_of sentence_of",
    "losses": "gaussian_profile",
    "queries": "Queries Table",
    "reading": "KEY OBJECT digest_of digest_of_object read_archive read_object",
    "report": "Checks",
    "sampled": "sampled_delta",
    "streams.participation": "Pattern",
    "streams.resolvents": "ReadChain",
    "streams.running_sums": "check_intervals",
    "tables.blocks": "lower_bound",
    "tables.claims": "measured_of",
    "tables.pairs": "SHARES",
    "trees.known": "mass_of_pairs",
    "trees.sweeps": "ReadTree",
}
"""What others use of each module, loaded when it is first used."""


def __getattr__(name: str) -> Any:
    for module, names in NAMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
