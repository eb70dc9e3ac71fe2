"""Random schemas and people, counted from every kind of source and by a plain loop.

The loop shares no code with the reader: keys are compared as Decimal and datetime, numbers rounded
as Fraction, and rows of a person chosen one by one.
"""

import csv
import datetime
import hashlib
import itertools
import math
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl

from pmldesign.errors import InvalidInputError
from pmldesign.releases import as_schema, count_people

KEYS = [
    ["F", "M"],
    [1, 2, 3],
    ["1", "02", "3.50"],
    ["true", "false"],
    [True, "x"],
    ["a'b", 'c"d', "é ü"],
    ["2024-01-31", "2024-02-01 12:00:00"],
    ["2024-02-29 23:30:00+00:00", "2024-03-01T05:15+05:30", "@1"],
    ["F", "f", "é", "e\u0301", "E"],
    ["-1", "0", "1e3"],
    ["NA", "None", "-"],
    [0.1, 2.5, -0.0],
]
CUTS = [
    [0, 18, 65, 120],
    [-1.5, 0.1, 0.30000000000000004, 1e3],
    [0, 1],
    [-1e300, 0, 1e300],
    [0, 18, None],
    [None, 0.5],
    [None, 1, 18, None],
    ["2024-01-31", "2024-02-01 12:00", "2024-03-01"],
    [None, "2024-02-01", "2024-02-01T12:00:00.5", None],
]
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
    "2024-02-29T23:30Z",
    "2024-03-01 05:15:00.000+0545",
    "2024-02-29 18:30-05",
    "2024-02-30T00:00Z",
    "2023-02-29T00:00Z",
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
COLLATIONS = ["", "", " COLLATE NOCASE", " COLLATE NOACCENT", " COLLATE NOCASE.NOACCENT"]
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
    "float": ("FLOAT", [*map(np.float32, [0, -0.0, 1, 2.5, 0.1, 3.5, 18, 64.5]), None]),
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
            if entry["keys"] != KEYS[8] and rng.random() < 0.3:  # F and f are one then
                entry["normalize"] = True
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
    if attribute.normalize:
        inside += [f" {label.upper()}" for label in attribute.labels]
    if attribute.dated:
        inside = ["2024-01-31", "2024-02-01 11:59:59.999", "2024-02-01T12:00", "2024-02-29"]
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


class RefusedError(Exception):
    """A value that the schema refuses, or a row of no one."""


def text_of(value):
    """As it is in a .csv."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def key_of(text):
    """What is compared."""
    if re.fullmatch(r"-?(0|[1-9]\d*)?(\.\d+)?", text, re.ASCII) and text.strip("-"):
        return "number", Decimal(text) + 0
    if text.lower() in ("true", "false"):
        return "truth", text.lower()
    if re.fullmatch(
        r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d(:?\d\d)?))?)?", text
    ):
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            return "text", text
        zone = moment.tzinfo is not None
        return "time", zone, moment.astimezone(datetime.UTC) if zone else moment
    return "text", text


def spelled(attribute, text):
    """What is compared with the keys of an attribute."""
    if attribute.normalize:
        text = "".join(c.lower() if c.isascii() else c for c in text.strip(" "))
    return key_of(text)


def time_of(text):
    """A date or time without an offset; None if it is none."""
    kind, *value = key_of(text)
    return value[1] if kind == "time" and not value[0] else None


def number_of(text):
    """The double that is written in plain digits; None without one."""
    text = text.strip(" ")
    plain = re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?[0-3]?\d?\d)?", text, re.ASCII)
    return float(text) if plain and len(text) <= 60 else None


def code_of(attribute, value):
    """The number of a cell, or of units; -1 if it is dropped."""
    text, number = text_of(value), number_of(text_of(value))
    found = None
    if hasattr(attribute, "points"):
        if number is not None and math.isfinite(number):
            low, high = attribute.points[0], attribute.points[-1]
            clipped = min(max(Fraction(repr(number)), low), high)
            found = math.floor((clipped - low) / attribute.unit + Fraction(1, 2))
    elif attribute.cuts:
        dated = any(isinstance(cut, str) for cut in attribute.cuts)
        place = time_of(text) if dated else number
        if place is not None and (dated or math.isfinite(place)):
            for i, (low, high) in enumerate(itertools.pairwise(attribute.cuts)):
                low, high = (time_of(c) if isinstance(c, str) else c for c in (low, high))
                if (low is None or low <= place) and (high is None or place < high):
                    found = i
    elif text:
        keys = [spelled(attribute, label) for label in attribute.labels]
        same = spelled(attribute, text)
        found = keys.index(same) if same in keys else None
    if found is not None:
        return found
    if attribute.outside == "refuse":
        raise RefusedError(attribute.name, text)
    if attribute.outside == "drop":
        return -1
    keys = [spelled(attribute, label) for label in attribute.labels]
    return keys.index(spelled(attribute, attribute.outside))


def person_of(values):
    """Who it is."""
    texts = [*map(text_of, values)]
    if any(text.lower() in ("", "nan", "inf", "-inf") for text in texts):
        raise RefusedError("person")
    return tuple(
        str(int(float(text))) if re.fullmatch(r"-?\d+\.0+|-0", text, re.ASCII) else text
        for text in texts
    )


def coded(schema, data, ids):
    """The codes of all rows that count, and whose they are."""
    rows, refused = [], False
    for values, own in zip(data, ids, strict=True):
        try:
            who = person_of(own)
            codes = []
            lost = False
            for attribute, value in zip(schema.attributes, values, strict=True):
                codes.append(code_of(attribute, value))
                lost |= codes[-1] < 0
        except RefusedError:
            refused = True
            continue
        never = any(all(codes[i] in some for i, some in c) for c in schema.impossible)
        if never and not schema.drops:
            refused = True
        if not lost and not never:
            rows.append((who, tuple(codes)))
    if refused:
        raise RefusedError
    return rows


def kept_by_definition(schema, rows, key):
    """The codes of the rows that a query with this key keeps, person by person."""
    of_person, attributes = {}, schema.attributes
    for who, codes in rows:
        of_person.setdefault(who, []).append(codes)

    def text(i, code):
        a = attributes[i]
        keyed = not a.cuts or code >= len(a.cuts) - 1
        return plain(a, a.labels[code]) if keyed else a.labels[code]

    numbers = [i for i, a in enumerate(attributes) if hasattr(a, "points")]
    others = [i for i in range(len(attributes)) if i not in numbers]

    def mixed(who, codes, places):
        texts = [str(codes[i]) if i in numbers else text(i, codes[i]) for i in places]
        return hashlib.md5("|".join([key, *who, *texts]).encode()).hexdigest()

    def order(who, codes, places):
        texts = [codes[i] if i in numbers else text(i, codes[i]).encode() for i in places]
        return mixed(who, codes, places), texts

    every, found = range(len(attributes)), []
    told = (
        others
        if schema.one_per == "cell"
        else [i for i in others if schema.names[i] == schema.one_per]
    )
    for who, own in of_person.items():
        own.sort(key=lambda codes: order(who, codes, every))
        if schema.one_per is None:
            turns = [
                (turn, order(who, codes, every), codes)
                for _, equal in itertools.groupby(own)
                for turn, codes in enumerate(equal)
            ]
            own = [codes for _, _, codes in sorted(turns)]
        else:
            best = {}
            for codes in own:
                best.setdefault(tuple(codes[i] for i in told), codes)
            own = sorted(best.values(), key=lambda codes: order(who, codes, told))
        found += own[: schema.rows_per_person]
    return found


def plain(attribute, label):
    """A key as the query writes it."""
    kind, *value = spelled(attribute, label)
    if kind == "number":
        return f"{value[0].normalize():f}"
    if kind == "truth":
        return value[0]
    if kind == "time" and value[0]:
        return f"@{int(value[1].timestamp())}"
    return str(value[1]).removesuffix(" 00:00:00") if kind == "time" else value[0]


def parts_of(schema, rows):
    """The histogram of rows by their codes, in parts."""
    table = np.zeros(math.prod(schema.sizes), dtype=np.int64)

    def ends(a, code):
        if not hasattr(a, "points"):
            return [(code, 1)]
        at = [int((point - a.points[0]) / a.unit) for point in a.points]
        k = max(i for i in range(len(at) - 1) if at[i] <= code)
        upper = Fraction(code - at[k], at[k + 1] - at[k]) * a.denominator
        cell = 2 * k if a.binned else k
        return [(cell, a.denominator - int(upper)), (cell + 1, int(upper))]

    for codes in rows:
        for corner in itertools.product(*map(ends, schema.attributes, codes)):
            cells, parts = zip(*corner, strict=True)
            table[np.ravel_multi_index(cells, schema.sizes)] += math.prod(parts)
    return table.tolist() if schema.possible is None else table[schema.possible].tolist()


def by_definition(schema, columns, people, key="key"):
    """The histogram by a plain loop; "refused" if a row is."""
    data = [*zip(*(values for _, values in columns.values()), strict=True)]
    ids = [*zip(*(values for _, values in people.values()), strict=True)] or [()] * len(data)
    try:
        rows = coded(schema, data, [own or ("1",) for own in ids])
    except RefusedError:
        return "refused"
    kept = kept_by_definition(schema, rows, key) if schema.person else [codes for _, codes in rows]
    return parts_of(schema, kept)


def counted(people, schema, key="key"):
    """The histogram, or "refused"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rows that were dropped
        try:
            return count_people(people, schema, key=key).tolist()
        except InvalidInputError as error:
            return "refused" if "row" in str(error) else str(error)


def of_polars(columns):
    types = {name: POLARS.get(kind, pl.String) for name, (kind, _) in columns.items()}
    return pl.DataFrame(
        {
            name: pl.Series(values, dtype=types[name], strict=False)
            for name, (_, values) in columns.items()
        }
    )


def of_pandas(rng, columns):
    """Of one of the types that a column may have."""
    dtypes = {
        "text": ["object", "str", "category"],
        "integer": ["Int64", "object"],
        "double": ["float64", "object", "Float64", "category"],
        "float": ["float32", "object", "category"],
        "truth": ["boolean", "object"],
        "date": ["object"],
        "time": ["datetime64[us]", "object"],
    }
    return pd.DataFrame(
        {
            name: pd.Series(
                [None if value != value else value for value in values],
                dtype=str(rng.choice(dtypes[kind])),
            )
            for name, (kind, values) in columns.items()
        }
    )


def in_database(rng, path, columns):
    """A table with collations."""
    quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
    types = [
        TYPES[kind][0] if kind != "text" else f"VARCHAR{rng.choice(COLLATIONS)}"
        for kind, _ in columns.values()
    ]
    declared = ", ".join(f"{n} {t}" for n, t in zip(quoted, types, strict=True))
    data = [*zip(*(values for _, values in columns.values()), strict=True)]
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE people ({declared})")
        if data:
            marks = ", ".join("?" for _ in columns)
            plain = [[v.item() if isinstance(v, np.generic) else v for v in row] for row in data]
            connection.executemany(f"INSERT INTO people VALUES ({marks})", plain)
    return f"duckdb:///{path}#people"


def as_csv(path, columns):
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        rows = zip(*(values for _, values in columns.values()), strict=True)
        writer.writerows([[text_of(value) for value in row] for row in rows])
    return path


def sources(rng, folder, columns):
    """The same people in a file, in frames and in a database."""
    frame = of_polars(columns)
    frame.write_parquet(folder / "people.parquet")
    return {
        "csv": as_csv(folder / "people.csv", columns),
        "parquet": folder / "people.parquet",
        "polars": frame,
        "pandas": of_pandas(rng, columns),
        "duckdb": in_database(rng, folder / "people.db", columns),
    }


def everywhere(rng, folder, *, numbers=False, person=False):
    """The counts of random people by the loop, and those of every source."""
    schema = drawn_schema(rng, int(rng.integers(1, 4)), numbers=numbers, person=person)
    rows = int(rng.integers(0, 20 if person else 12))
    columns = {a.name: drawn_column(rng, a, rows) for a in schema.attributes}
    people = drawn_people(rng, schema, rows)
    data = sources(rng, folder, {**columns, **people})
    found = {name: counted(source, schema) for name, source in data.items()}
    return by_definition(schema, columns, people), found, (schema, columns, people)
