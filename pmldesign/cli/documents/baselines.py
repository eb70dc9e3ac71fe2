"""The usual strategies that designs are shown beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pmldesign.cli.terminal.show import note
from pmldesign.comparison.comparison import compare_all
from pmldesign.comparison.rows import Row
from pmldesign.designs.rivals import row_seconds
from pmldesign.errors import InvalidInputError, PmldesignError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies.baselines.registry import usual_baselines
from pmldesign.workloads import Workload
from pmldesign_solvers.norm.options import BEYOND

T = TypeVar("T")


def beside(
    names: Sequence[str], announce: Callable[[str], None], rows_of: Callable[[str], Iterable[T]]
) -> list[T]:
    """The rows of every strategy; a note on stderr says why one has none, or that Ctrl-C came."""
    rows: list[T] = []
    for name in names:
        announce(f"comparing with {name!r}")
        try:
            rows += rows_of(name)
        except PmldesignError as error:
            note(f"the table leaves out {name!r}: {error}")
        except KeyboardInterrupt:
            note(f"the table ends before {name!r}: interrupted")
            break
    return rows


def require_time(
    deadline: float | None,
    name: str,
    queries: Workload,
    guarantee: Guarantee | None,
    neighbours: Neighbours,
    participation: Any = None,
    p: float = 2.0,
) -> None:
    """Refuse the row of a baseline that would end well after a deadline of `time.perf_counter`."""
    if deadline is None:
        return
    left = deadline + BEYOND - time.perf_counter()
    if left < row_seconds(name, queries, guarantee, neighbours, participation, p):
        raise InvalidInputError("the time limit came first")


def usual_rows(
    queries: Workload,
    names: Sequence[str] = (),
    *,
    guarantee: Guarantee | None,
    neighbours: Neighbours,
    announce: Callable[[str], None],
    deadline: float | None = None,
    **others: Any,
) -> list[Row]:
    """The rows of the baselines that answer the workload in float64, within minutes.

    Args:
        queries: the workload.
        names: of the baselines; none for the usual ones.
        guarantee: what the noise is to meet.
        neighbours: where there is no guarantee.
        announce: called with a line of text before every row.
        deadline: of `time.perf_counter`; rows that would take longer are left out.
        others: p, the noise, its own_grid and how often a person takes part, for `compare_all`.
    """

    def rows_of(name: str) -> Sequence[Row]:
        takes_part, p = others.get("participation"), others.get("p", 2.0)
        require_time(deadline, name, queries, guarantee, neighbours, takes_part, p)
        asked: dict[str, Any] = {"guarantees": [guarantee], "neighbours": neighbours}
        (shown,) = compare_all([queries], [name], leave_out=True, **asked, **others)
        return shown.rows

    return beside(names or usual_baselines(queries), announce, rows_of)
