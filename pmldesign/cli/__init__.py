"""The command line: a command reads its options, makes one library call, and says what it found.

Options are the fields of a class (`options.fields`); what was found is a document, which is shown
as text, as JSON, or as a page (`documents.document`).

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

COMMANDS = {
    "demo": "Show a worked example: a table of people, running sums, or a norm.",
    "workload": "Show a workload, or write it to a file.",
    "optimize": "Design a strategy for a workload, and its noise.",
    "stream": "Release running sums on line, a number at a time.",
    "calibrate": "Find the noise that a strategy needs for a guarantee.",
    "release": "Answer a workload on data: a table with exact noise and intervals.",
    "ask": "Answer further questions from the measurements of releases.",
    "ledger": "Show what releases about some people have cost, and what is left.",
    "plan": "Show what several releases cost together whose noise is fixed in advance.",
    "schema": "Draft a schema, check data against it, or print the query that counts them.",
    "target": "Find the least budget at which every query is accurate enough.",
    "compare": "Compare strategies on a workload.",
    "sweep": "Compare strategies over a whole study, here or on a cluster.",
    "bounds": "Show how close to the best possible an error is.",
    "leakage": "Show the pointwise maximal leakage of noise on a strategy.",
    "envelope": "Show the leakage envelope of a finite channel.",
    "verify": "Check every number that a file claims.",
}
