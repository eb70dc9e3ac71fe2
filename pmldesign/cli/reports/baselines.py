"""The usual strategies that designs are shown beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from pmldesign.cli.terminal.show import note
from pmldesign.comparison.comparison import compare_all
from pmldesign.comparison.rows import Row
from pmldesign.designs.cost import row_seconds
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.workloads import Workload

BASELINES = ("tree", "haar", "identity", "workload")


def usual_rows(
    queries: Workload,
    names: Sequence[str] = BASELINES,
    *,
    p: float,
    guarantee: Guarantee | None,
    neighbours: Neighbours,
    announce: Callable[[str], None],
    deadline: float | None = None,
    **others: Any,
) -> list[Row]:
    """The rows of the baselines that answer the workload in float64, within minutes.

    A note on stderr says why others are left out. Ctrl-C leaves out what is not done.

    Args:
        queries: the workload.
        names: of the baselines.
        p: of the error, as the following for `compare_all`.
        guarantee: what the noise is to meet.
        neighbours: where there is no guarantee.
        announce: called with a line of text before every row.
        deadline: of `time.perf_counter`; rows that would take longer are left out.
        others: the noise and how often a person takes part, for `compare_all`.
    """
    rows: list[Row] = []
    for name in names:
        left = None if deadline is None else deadline - time.perf_counter()
        if left is not None and left < row_seconds(name, queries, guarantee, neighbours):
            note(f"the table leaves out {name!r}: the time limit came first")
            continue
        announce(f"comparing with {name!r}")
        try:
            shown = compare_all(
                [queries],
                [name],
                p=p,
                guarantees=[guarantee],
                neighbours=neighbours,
                leave_out=True,
                **others,
            )
        except InvalidInputError as error:
            note(f"the table leaves out {name!r}: {error}")
        except KeyboardInterrupt:
            note(f"the table ends before {name!r}: interrupted")
            break
        else:
            rows += shown[0].rows
    return rows
