"""Random schemas and people, counted by the reader of files and by a database."""

import csv
import datetime
import hashlib
import itertools
import math
from decimal import Decimal

import numpy as np
import polars as pl

from pmldesign.errors import InvalidInputError
from pmldesign.release import (
    CountedPeople,
    answer_rows,
    as_schema,
    count_people,
    query_text,
    read_as,
)

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
NUMBERS = [
    {"low": 0, "high": 10, "unit": 1},
    {"low": -1, "high": 1, "unit": 0.1, "knots": [-0.5, 0.2]},
    {"low": 0, "high": 1, "unit": 0.005, "cuts": [0.3]},
    {"low": -120, "high": 120, "unit": 40, "cuts": [-80, 0]},
    {"low": 0.07, "high": 10000.57, "unit": 0.25},
    {"low": -500, "high": 500, "unit": 1e-6},
]
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


def drawn_schema(rng, count, *, numbers=False, person=False):
    attributes = []
    for number in range(count):
        outside = str(rng.choice(["refuse", "drop", "drop", "other", "rest"]))
        entry = {"name": f"at'tri {number}" if rng.random() < 0.1 else f"a{number}"}
        if numbers and rng.random() < 0.6:
            entry |= NUMBERS[rng.integers(len(NUMBERS))]
            outside = "refuse" if outside == "refuse" else "drop"
        elif rng.random() < 0.5:
            entry["cuts"] = CUTS[rng.integers(len(CUTS))]
        else:
            entry["keys"] = KEYS[rng.integers(len(KEYS))]
        attributes.append({**entry, "outside": outside})
    content = {"attributes": attributes, "outside": str(rng.choice(["refuse", "drop"]))}
    content |= {"impossible": drawn_impossible(rng, attributes)} if rng.random() < 0.3 else {}
    if person:
        content |= {"person": ["i'd", "more"][: int(rng.integers(1, 3))]}
        content |= {"rows_per_person": int(rng.integers(1, 4))}
        per = str(rng.choice(["", "cell", *(a["name"] for a in attributes if "low" not in a)]))
        content |= {"one_per": per} if per else {}
    schema = as_schema(content)
    if schema.denominator < 2**60:
        return schema
    return drawn_schema(rng, count, numbers=numbers, person=person)


def drawn_impossible(rng, attributes):
    """One combination of keys, and one without any where there are none."""
    keyed = {a["name"]: a["keys"] for a in attributes if len(a.get("keys", [])) > 1}
    named = [name for name in keyed if rng.random() < 0.7]
    return (
        [{name: keyed[name][int(rng.integers(len(keyed[name])))] for name in named}]
        if named
        else []
    )


def halves(attribute):
    """Doubles next to where a value is rounded to another unit, and some inside."""
    unit, low = attribute.unit, attribute.points[0]
    last = int((attribute.points[-1] - low) / unit)
    found = []
    for step in {0, 1, 2, 3, last // 3, last // 2, last - 1, last}:
        for end in (float(low + (step + half) * unit) for half in (0, unit / unit / 2)):
            found += [end, math.nextafter(end, math.inf), math.nextafter(end, -math.inf)]
    return found


def drawn_column(rng, attribute, rows):
    """Its kind, and its values: many inside, some odd."""
    kind = str(rng.choice(["text", "text", "text", *TYPES]))
    numbers = hasattr(attribute, "points")
    if numbers and rng.random() < 0.5:
        kind = "double"
    pool = ODD if kind == "text" else TYPES[kind][1]
    inside = list(attribute.labels) if attribute.cuts is None else ["1", "5", "0.5"]
    if numbers:
        inside = halves(attribute) if kind == "double" else [*map(repr, halves(attribute))]
    plain = kind == "text" or (numbers and kind == "double")
    odd = 0.05 if attribute.outside == "refuse" else 0.5
    values = [
        inside[rng.integers(len(inside))]
        if plain and rng.random() > odd
        else pool[rng.integers(len(pool))]
        for _ in range(rows)
    ]
    return kind, [None if value == "" else value for value in values]


def drawn_people(rng, schema, rows):
    """What tells people apart: few of them, seldom nobody."""
    names = ["1", "2", "02", "a'b", "é"] + ([""] if rng.random() < 0.1 else [])
    return {
        name: ("text", [names[rng.integers(len(names))] or None for _ in range(rows)])
        for name in schema.person
    }


def counted(people, schema):
    """The histogram, or what is wrong without the row."""
    try:
        return count_people(people, schema).tolist()
    except InvalidInputError as error:
        text = str(error)
        if "did not tell" in text:
            return "untold"
        return "refused" if "row" in text or "64 bits" in text else text


def plain(label):
    """A key as the query writes it."""
    if label.lower() in ("true", "false"):
        return label.lower()
    numeric = label.isascii() and label[-1:].isdigit() and not label.startswith("02")
    try:
        return f"{Decimal(label).normalize() + 0:f}" if numeric else label
    except ArithmeticError:
        return label


def kept_by_definition(schema, ids, data, key):
    """The codes of the rows that a query with this key keeps, person by person."""
    rows, attributes = {}, schema.attributes
    for who, values in zip(ids, data, strict=True):
        codes = tuple(a.code(v) for a, v in zip(attributes, values, strict=True))
        never = any(all(codes[i] in some for i, some in c) for c in schema.impossible)
        if min(codes) >= 0 and not never:
            rows.setdefault(who, []).append(codes)

    def text(i, code):
        a = attributes[i]
        return repr(a.cuts[code]) if a.cuts and code < len(a.cuts) - 1 else plain(a.labels[code])

    def steps(i, code):
        a = attributes[i]
        ends = [int((point - a.points[0]) / a.unit) for point in a.points]
        interval, weight = divmod(code, a.denominator + 1)
        return str(ends[interval] + weight * (ends[interval + 1] - ends[interval]) // a.denominator)

    numbers = [i for i, a in enumerate(attributes) if hasattr(a, "points")]
    others = [i for i in range(len(attributes)) if i not in numbers]

    def mixed(who, codes, places):
        texts = [text(i, codes[i]) if i in others else "" for i in places]
        texts += [steps(i, codes[i]) for i in numbers if len(places) == len(attributes)]
        return hashlib.md5("|".join([key, *who, *texts]).encode()).hexdigest()

    every, found = range(len(attributes)), []
    told = (
        others
        if schema.one_per == "cell"
        else [i for i in others if schema.names[i] == schema.one_per]
    )
    for who, own in rows.items():
        own.sort(key=lambda codes: (mixed(who, codes, every), codes))
        if schema.one_per is None:
            turns = [
                (turn, mixed(who, codes, every), codes)
                for _, equal in itertools.groupby(own)
                for turn, codes in enumerate(equal)
            ]
            own = [codes for _, _, codes in sorted(turns)]
        else:
            best = {}
            for codes in own:
                best.setdefault(tuple(codes[i] for i in told), codes)
            own = sorted(best.values(), key=lambda codes: mixed(who, codes, told))
        found += own[: schema.rows_per_person]
    return found


def parts_of(schema, rows):
    """The histogram of rows by their codes, in parts."""
    table = np.zeros(math.prod(schema.sizes), dtype=np.int64)
    for codes in rows:
        ends = [a.spread(code) for a, code in zip(schema.attributes, codes, strict=True)]
        for corner in itertools.product(*ends):
            cells, parts = zip(*corner, strict=True)
            table[np.ravel_multi_index(cells, schema.sizes)] += math.prod(parts)
    return table.tolist() if schema.possible is None else table[schema.possible].tolist()


def written(rng, folder, connection, schema, columns):
    """The same people in a file and in a table of the database."""
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
    return path, data


def both(rng, folder, connection, *, numbers=False, person=False):
    """The counts of one random file, by both, and by definition where rows are kept."""
    schema = drawn_schema(rng, int(rng.integers(1, 4)), numbers=numbers, person=person)
    rows = int(rng.integers(0, 20 if person else 12))
    columns = {a.name: drawn_column(rng, a, rows) for a in schema.attributes}
    people = drawn_people(rng, schema, rows)
    path, data = written(rng, folder, connection, schema, {**columns, **people})
    in_file, about = counted(path, schema), (schema, data)
    if person and isinstance(in_file, list):
        ids = [*zip(*(values for _, values in people.values()), strict=True)]
        values = [*zip(*(values for _, values in columns.values()), strict=True)]
        codes = kept_by_definition(schema, ids, values, "key")
        assert sum(in_file) == len(codes) * schema.denominator, about
        in_file = parts_of(schema, codes)
    found = connection.execute(query_text(schema, "duckdb", "people", key="key")).fetchall()
    in_database = counted(answered(found, schema), schema)
    return in_file, in_database, about


def answered(found, schema):
    """People as the database counted them."""
    return CountedPeople("x", lambda _columns: answer_rows(found, schema), read_as(schema))
