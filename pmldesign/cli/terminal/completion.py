"""Arguments that a shell completes: workloads, strategies and lists of them.

Names come with sizes that work, `prefix:64`, to be edited: shells take a colon for the end of a
word. Files are completed by the shell itself.
"""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

FILE_ENDINGS = (".npy", ".npz", ".csv", ".mtx")


class WorkloadName(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A workload: a name, products and unions of names, or a file."""

    name = "workload"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature, as the next
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Examples of all names, after the last * or +; and files."""
        from pmldesign.workloads import named_workloads

        start = max(incomplete.rfind("*"), incomplete.rfind("+")) + 1
        before, last = incomplete[:start], incomplete[start:]
        names = [
            CompletionItem(before + entry.example, help=entry.description)
            for entry in named_workloads()
            if entry.example.startswith(last)
        ]
        return names + ([] if start else _files(incomplete))


class StrategyNames(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Strategies separated by commas: names, or files."""

    name = "strategies"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature, as the next
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """All names after the last comma, and files."""
        from pmldesign.comparison.tasks import DESIGNED
        from pmldesign.strategies import BASELINES

        before, comma, last = incomplete.rpartition(",")
        names = [*DESIGNED, *(entry.name for entry in BASELINES), *([] if comma else ["all"])]
        listed = before.split(",")
        items = [name for name in names if name.startswith(last) and name not in listed]
        return [CompletionItem(before + comma + name) for name in items] + _files(
            last, before + comma
        )


def _files(incomplete: str, before: str = "") -> list[CompletionItem]:
    """Files that hold a matrix, and folders."""
    folder, slash, stem = incomplete.rpartition("/")
    try:
        paths = sorted(Path(folder or ("/" if slash else ".")).iterdir())
    except OSError:
        return []
    start = before + folder + slash
    return [
        CompletionItem(start + path.name + ("/" if path.is_dir() else ""))
        for path in paths
        if path.name.startswith(stem)
        and (path.is_dir() or path.suffix.lower() in FILE_ENDINGS)
        and (stem or not path.name.startswith("."))
    ]
