"""The command line: a command reads its options, makes one library call, and shows the result.

Options are the fields of a class (`options.fields`); the result is a document, which is shown as
text, as JSON, or as a page (`documents.document`).

Commands are imported when they are called, so that `pmldesign --help` does not load numpy.
"""

from __future__ import annotations

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "demo": "DEMONSTRATIONS MEANS",
        "documents.comparison": "usual_rows",
        "documents.document": "Document Section Table facts note print_json progress table",
        "documents.parts": "promised",
        "options.fields": "Outputs ReportOutputs argument as_command given group option",
        "process": "complain main wrapped",
    },
)

GROUPS = {
    "Design": {
        "optimize": "Design a strategy and its noise for a workload.",
        "target": "Find the smallest privacy budget for a required accuracy.",
        "compare": "Compare the errors of strategies on workloads.",
        "bounds": "Show lower and upper bounds on the error of mechanisms.",
        "calibrate": "Find the noise that a strategy needs for a guarantee.",
        "sweep": "Compare strategies over a study, on this machine or a cluster.",
        "workload": "List the named workloads, show one, or write it to a file.",
    },
    "Publish": {
        "release": "Publish answers about data, with exact noise and intervals.",
        "ask": "Answer further queries from the measurements of releases.",
        "stream": "Publish running sums online, one number at a time.",
        "schema": "Draft a schema, check data against it, or print its SQL query.",
        "ledger": "Show the privacy cost of releases, and plan further ones.",
        "verify": "Recompute every number that a file claims.",
    },
    "Leakage": {
        "leakage": "Compute the pointwise maximal leakage of noise on a strategy.",
        "envelope": "Compute the leakage envelope of a finite channel.",
    },
    "Learn": {
        "demo": "Run a worked example: a table, a panel, running sums or a norm.",
    },
}
"""What every command does, by group, in the order of the help."""
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
