"""Random schemas and people, counted by the reader of files and by a database."""

import csv
import datetime
import math

import numpy as np
import polars as pl

from pmldesign.errors import InvalidInputError
from pmldesign.release import CountedPeople, as_schema, count_people, query_text, typed_query

KEYS = [
    ["F", "M"],
    [1, 2, 3],
    ["1", "02", "3.50"],
    ["true", "false"],
    [True, "x"],
    ["a'b", 'c"d', "é ü"],
    ["2024-01-31", "2024-02-01 12:00:00"],
    ["-1", "0", "1e3"],
    ["NA", "None", "-"],
    [0.1, 2.5, -0.0],
]
CUTS = [[0, 18, 65, 120], [-1.5, 0.1, 0.30000000000000004, 1e3], [0, 1], [-1e300, 0, 1e300]]
ODD = [
    "",
    " ",
    "F",
    "f",
    "M ",
    "1",
    "1.0",
    "01",
    "+1",
    "1e0",
    "10e-1",
    "1_0",
    "2",
    "2.00",
    "3.5",
    "3.50",
    "True",
    "TRUE",
    "false",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "Infinity",
    "-0",
    "-0.0",
    "0x10",
    "1d",
    "1f",
    "2024-01-31",
    "2024-01-31 00:00:00",
    "2024-01-31T00:00",
    "2024-02-01T12:00",
    "2024-13-01",
    "1e400",
    "9" * 80,
    "0." + "0" * 70 + "1",
    "18",
    "17.999999999999999999",
    "120",
    "119.99",
    ".5",
    "5.",
    ".",
    "-",
    "e5",
    "1e",
    "١",
    "１",
    "null",
    "NULL",
    "None",
    "0",
    "0.1",
    "0.10000000000000001",
    "1000",
    "999.9999999",
    " 5",
    "5 ",
    "\t7",
    "a'b",
    'c"d',
    "é ü",
    "e\u0301",
    "x;y",
    "a,b",
    "two\nlines",
    "[0, 18)",
    "*",
    "other",
    "1e300",
    "-1e300",
    "1E2",
    "1,5",
    "0.30000000000000004",
    "0.3",
    "64.9999999",
]
TYPES = {
    "integer": ("BIGINT", [0, 1, 2, 3, 17, 18, 64, 65, 120, -1, 10**15, None]),
    "double": (
        "DOUBLE",
        [
            0.0,
            -0.0,
            1.0,
            2.5,
            0.1,
            0.2 + 0.1,
            0.3,
            3.5,
            17.999999999999996,
            18.0,
            1e20,
            1e-300,
            math.inf,
            math.nan,
            1e300,
            None,
        ],
    ),
    "float": ("FLOAT", [0.0, 1.0, 2.5, float(np.float32(0.1)), 3.5, 18.0, 64.5, None]),
    "truth": ("BOOLEAN", [True, False, None]),
    "date": ("DATE", [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1), None]),
    "time": (
        "TIMESTAMP",
        [
            datetime.datetime(2024, 1, 31),
            datetime.datetime(2024, 2, 1, 12),
            None,
            datetime.datetime(2024, 2, 1, 12, 0, 0, 500_000),
        ],
    ),
}
POLARS = {
    "integer": pl.Int64,
    "double": pl.Float64,
    "float": pl.Float32,
    "truth": pl.Boolean,
    "date": pl.Date,
    "time": pl.Datetime("us"),
}


def drawn_schema(rng, count):
    attributes = []
    for number in range(count):
        outside = str(rng.choice(["refuse", "drop", "drop", "other", "rest"]))
        entry = {"name": f"at'tri {number}" if rng.random() < 0.1 else f"a{number}"}
        if rng.random() < 0.5:
            entry["cuts"] = CUTS[rng.integers(len(CUTS))]
        else:
            entry["keys"] = KEYS[rng.integers(len(KEYS))]
        attributes.append({**entry, "outside": outside})
    return as_schema({"attributes": attributes})


def drawn_column(rng, attribute, rows):
    """Its kind, and its values: many inside, some odd."""
    kind = str(rng.choice(["text", "text", "text", *TYPES]))
    pool = ODD if kind == "text" else TYPES[kind][1]
    inside = list(attribute.labels) if attribute.cuts is None else ["1", "5", "0.5"]
    odd = 0.05 if attribute.outside == "refuse" else 0.5
    values = [
        inside[rng.integers(len(inside))]
        if kind == "text" and rng.random() > odd
        else pool[rng.integers(len(pool))]
        for _ in range(rows)
    ]
    return kind, [None if value == "" else value for value in values]


def counted(people, schema):
    """The histogram, or what is wrong without the row."""
    try:
        return count_people(people, schema).tolist()
    except InvalidInputError as error:
        return "refused" if "row" in str(error) else str(error)


def both(rng, folder, connection):
    """The counts of one random file, by both."""
    schema = drawn_schema(rng, int(rng.integers(1, 4)))
    rows = int(rng.integers(0, 12))
    columns = {a.name: drawn_column(rng, a, rows) for a in schema.attributes}
    data = [*zip(*(values for _, values in columns.values()), strict=True)]
    if all(kind == "text" for kind, _ in columns.values()):
        path = folder / "people.csv"
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle, lineterminator="\n", quoting=csv.QUOTE_ALL)
            writer.writerow(columns)
            writer.writerows([["" if v is None else v for v in row] for row in data])
    else:
        path = folder / "people.parquet"
        types = {name: POLARS.get(kind, pl.String) for name, (kind, _) in columns.items()}
        frame = pl.DataFrame(
            {
                name: pl.Series(values, dtype=types[name], strict=False)
                for name, (_, values) in columns.items()
            }
        )
        frame.write_parquet(path)
    quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
    types = [TYPES[kind][0] if kind != "text" else "VARCHAR" for kind, _ in columns.values()]
    declared = ", ".join(f"{n} {t}" for n, t in zip(quoted, types, strict=True))
    connection.execute(f"CREATE OR REPLACE TABLE people ({declared})")
    if data:
        marks = ", ".join("?" for _ in columns)
        connection.executemany(f"INSERT INTO people VALUES ({marks})", data)
    in_file, about = counted(path, schema), (schema, data)
    for text in (query_text(schema, "duckdb", "people"), typed_query(connection, schema, "people")):
        found = connection.execute(text).fetchall()
        answer = [(*values, count, row) for row, (*values, count) in enumerate(found, 1)]
        in_database = counted(CountedPeople("x", lambda _columns, rows=answer: rows), schema)
        if in_database != in_file:
            break
    return in_file, in_database, about
