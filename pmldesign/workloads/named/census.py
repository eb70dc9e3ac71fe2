"""The United States census table "sex by age" as published for every area since 2010 (table P12).

Cells: 2 sexes x 116 single years of age, cell = 116 sex + age, male first, ages 0 ... 115.
Queries, in the order of the table: the total; male and its 23 age groups; female and hers.
Each of the 49 is one interval of cells.
"""

from __future__ import annotations

from pmldesign.workloads.ranges import RangeWorkload

AGES = 116
"""Single years of age, 0 ... 115."""

GROUP_STARTS = (
    *(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
)
"""The first age of each of the 23 groups; a group ends where the next one starts."""


def census_p12() -> RangeWorkload:
    """The 49 counts of the table "sex by age" over 232 cells."""
    stops = (*GROUP_STARTS[1:], AGES)
    rows = [("total", 0, 2 * AGES)]
    for sex, offset in (("male", 0), ("female", AGES)):
        rows.append((sex, offset, offset + AGES))
        rows += [
            (f"{sex}, {_age_text(start, stop)}", offset + start, offset + stop)
            for start, stop in zip(GROUP_STARTS, stops, strict=True)
        ]
    labels, starts, ends = zip(*rows, strict=True)
    return RangeWorkload(starts, ends, 2 * AGES, name="census-p12", label=labels.__getitem__)


def _age_text(start: int, stop: int) -> str:
    if start == 0:
        return f"under {stop} years"
    if stop == AGES:
        return f"{start} years and over"
    if stop == start + 1:
        return f"{start} years"
    join = "and" if stop == start + 2 else "to"
    return f"{start} {join} {stop - 1} years"
