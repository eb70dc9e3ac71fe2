r"""What a value is: one rule for every source, as SQL for values and in Python for keys of schemas.

A value is compared by the bytes of its text, whatever the collation of its column. Its text is that
of a .csv: true, 2, 2.5, 2020-01-02, 2020-01-02 03:00:00. A missing value (NULL, NaN in floating
point) and an empty text are the same: no value.

A key is the text itself, except that equal values have one text (`key_text`, `key_sql`):

    decimals             -0, 2.0, 2.50 and .5 are 0, 2, 2.5 and 0.5; 007, +2 and 1e3 are as written
    truth values         TRUE and True are true
    times                2020-01-02T03:00 is 2020-01-02 03:00:00, midnight is its date
    instants             times with an offset from UTC: @ and the seconds since 1970

A number is plain digits with an optional exponent and blanks around it, or a number of the database
(`number_sql`). It becomes the nearest double.

Identifiers of persons are texts; one of a whole number may have a point with zeros (1.0 is 1, -0 is
0), as programs write them if some are missing. Numbers in floating point are refused by their type,
and so are texts that programs write for such (1.23457E+17): each stands for several whole numbers,
and rows of two persons would be those of one. So are lists and structs.

The SQL is that of DuckDB. TEXT_OF(x) and IS_FLOATING(x) are written for each dialect (`MARKS`):
TEXT_OF takes the text through its bytes, which leaves no collation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from datetime import date as date_of
from decimal import Decimal
from typing import Any

NOTHING = ("nan", "inf", "-inf", "infinity", "-infinity")
"""Texts in any case that programs write for missing numbers: no identifiers."""
ZERO, WHOLE = "^-?0([.]0+)?$", "^-?[0-9]+[.]0+$"
ROUNDED = "^-?([0-9]+([.][0-9]+[eE][+]?|[eE][+])[0-9]+|[0-9]{16,}[.]0)$"
"""Identifiers: 0 and other whole numbers with a point, and numbers that were rounded."""
DECIMAL = "^-?(0|[1-9][0-9]*)?([.][0-9]+)?$"
NUMBER = "^ *[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-3]?[0-9]?[0-9])? *$"
LONGEST_NUMBER = 60
"""Characters of a text that is read as a number."""
DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
TIME = f"^{DATE}[ T]{CLOCK}$"
INSTANT = f"^{DATE}[ T]{CLOCK} ?(Z|[-+][0-9][0-9](:?[0-9][0-9])?)$"
FLOATING = ("FLOAT", "DOUBLE")
"""Types of DuckDB."""
EXACT_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE")
"""Types of DuckDB whose doubles are those of their texts."""
EXACT = 10**16
"""Beyond, programs write doubles with an exponent."""
LARGEST = 1.7976931348623157e308
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NESTED = re.compile(r"\]$|^(STRUCT|MAP|UNION|VARIANT)\b")
"""Types of DuckDB without a text."""
MARKS: dict[str, tuple[str, str]] = {
    "duckdb": (
        "DECODE(ENCODE(CAST({0} AS TEXT)))",
        f"TYPEOF({{0}}) IN ({', '.join(map(repr, FLOATING))})",
    ),
    "postgres": (
        "CONVERT_FROM(CONVERT_TO(CAST({0} AS TEXT), 'UTF8'), 'UTF8')",
        "CAST(PG_TYPEOF({0}) AS TEXT) IN ('real', 'double precision')",
    ),
    "bigquery": (
        "SAFE_CONVERT_BYTES_TO_STRING(CAST(CAST({0} AS STRING) AS BYTES))",
        "REGEXP_CONTAINS(FORMAT('%T', {0}), '^-?[0-9]+([.]|e)')",
    ),
    "snowflake": (
        "TO_VARCHAR(TO_BINARY(CAST({0} AS VARCHAR), 'UTF-8'), 'UTF-8')",
        "STARTSWITH(SYSTEM$TYPEOF({0}), 'FLOAT')",
    ),
    "spark": (
        "DECODE(ENCODE(CAST({0} AS STRING), 'UTF-8'), 'UTF-8')",
        "TYPEOF({0}) IN ('float', 'double')",
    ),
}
"""TEXT_OF and IS_FLOATING of an expression in each dialect."""
DECIMALS, TRUTHS, TIMES, INSTANTS = "decimals", "truths", "times", "instants"
KINDS = (DECIMALS, TRUTHS, TIMES, INSTANTS)


def is_time(text: str) -> bool:
    """Whether a text is a date or a time without an offset from UTC."""
    return re.fullmatch(f"{DATE}|{TIME[1:-1]}", text) is not None and _has_day(text)


def _has_day(text: str) -> bool:
    with suppress(ValueError):
        return date_of.fromisoformat(text[:10]).year > 0
    return False


def normalized(text: str) -> str:
    """A text without spaces around it, and with the letters A to Z in lower case."""
    return text.strip(" ").translate(str.maketrans(UPPER, UPPER.lower()))


def text_of(value: Any) -> str:
    """The text of a value in Python; "" for None, NaN and NA."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    try:
        missing = value is None or bool(value != value)
    except (TypeError, ArithmeticError):  # NA of pandas, signaling NaN of Decimal
        missing = True
    if missing:
        return ""
    return key_text(f"{value:f}") if isinstance(value, Decimal) else str(value)


def key_text(text: str) -> str:
    """What texts of equal values have in common."""
    if "." in text or text.startswith("-0"):
        if re.fullmatch(DECIMAL[1:-1], text):
            return _decimal(text)
    elif len(text) <= 5 and text.lower() in ("true", "false"):
        return text.lower()
    if text[4:5] == "-" and re.fullmatch(TIME[1:-1], text):
        return _time(text[:10], text[11:])
    return _instant(text) if text[4:5] == "-" else text


def _decimal(text: str) -> str:
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    digits = "0" + digits if digits[:1] in ("", ".") else digits
    return digits if digits == "0" else sign + digits


def _time(date: str, clock: str) -> str:
    clock = clock if len(clock) > 5 else f"{clock}:00"
    clock = clock.rstrip("0").rstrip(".") if "." in clock else clock
    return date if clock == "00:00:00" else f"{date} {clock}"


def _instant(text: str) -> str:
    """A time with an offset, in seconds; any other text as it is."""
    found = re.fullmatch(r"(.{10})[ T](.{5})(:.{2})?([.][0-9]+)? ?(Z|([-+]..):?(..)?)", text)
    if found is None or not re.fullmatch(INSTANT[1:-1], text):
        return text
    date, clock, seconds, part, zone, hours, minutes = found.groups()
    with suppress(ValueError):  # a day that the month does not have
        days = date_of.fromisoformat(date).toordinal() - date_of(1970, 1, 1).toordinal()
        offset = 0 if zone == "Z" else 60 * int(hours[1:]) + int(minutes or 0)
        offset = -offset if (hours or "")[:1] == "-" else offset
        minute = 1440 * days + 60 * int(clock[:2]) + int(clock[3:]) - offset
        return f"@{60 * minute + int((seconds or ':0')[1:])}{(part or '').rstrip('0').rstrip('.')}"
    return text


def label_of(key: str) -> str:
    """A key as people write it: an instant as its time in UTC."""
    found = re.fullmatch(r"@(-?[0-9]+)([.][0-9]+)?", key)
    if found is None:
        return key
    with suppress(OverflowError):
        moment = datetime(1970, 1, 1) + timedelta(seconds=int(found[1]))
        return f"{moment.isoformat(' ')}{found[2] or ''}+00:00"
    return key


def kinds_of(labels: Iterable[str]) -> tuple[str, ...]:
    """The kinds of values that a list of keys has, for `key_sql`."""
    kinds = set()
    for label in labels:
        key = key_text(label)
        if re.fullmatch(DECIMAL[1:-1], key):
            kinds.add(DECIMALS)
        elif key in ("true", "false"):
            kinds.add(TRUTHS)
        elif key.startswith("@") and key != label:
            kinds.add(INSTANTS)
        elif re.fullmatch(f"{DATE}( .*)?", key):
            kinds.add(TIMES)
    return tuple(kind for kind in KINDS if kind in kinds)


def normalized_sql(text: str) -> str:
    """`normalized` of a text: no database lowers other letters, which each would do in its way."""
    return f"TRANSLATE(TRIM({text}, ' '), '{UPPER}', '{UPPER.lower()}')"


def time_sql(text: str) -> str:
    """The key of a date or a time without an offset, whose order is that of time; else NULL."""
    day = f"CASE WHEN {_is_day(text)} THEN {{}} END".format
    return (
        f"CASE WHEN REGEXP_MATCHES({text}, '^{DATE}$') THEN {day(text)}"
        f" WHEN REGEXP_MATCHES({text}, '{TIME}') THEN {day(_time_sql(text))} END"
    )


def quoted(name: str) -> str:
    """The name of a column in a query."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in a query."""
    return "'" + text.replace("'", "''") + "'"


def listed(texts: Iterable[str]) -> str:
    """Texts in a query, with commas between."""
    return ", ".join(map(literal, texts))


def key_sql(text: str, kinds: Iterable[str]) -> str:
    """The key of a text, `key_text`, as far as these kinds of values matter.

    Args:
        text: the name of a column of texts.
        kinds: of KINDS.
    """
    matches = f"REGEXP_MATCHES({text}, '{{}}')".format
    cases = {
        DECIMALS: f"WHEN ({text} LIKE '%.%' OR {text} LIKE '-0%') AND {matches(DECIMAL)} THEN"
        f" {_decimal_sql(text)}",
        TRUTHS: f"WHEN LOWER({text}) IN ('true', 'false') THEN LOWER({text})",
        TIMES: f"WHEN {matches(TIME)} THEN {_time_sql(text)}",
        INSTANTS: f"WHEN {matches(INSTANT)} AND {_is_day(text)} THEN {_instant_sql(text)}",
    }
    some = " ".join(cases[kind] for kind in kinds)
    return f"CASE {some} ELSE {text} END" if some else text


def _decimal_sql(text: str) -> str:
    return (
        f"CASE WHEN REGEXP_MATCHES({text}, '^-?0?([.]0+)?$') THEN '0'"
        f" WHEN {text} LIKE '-.%' THEN '-0' || {_stripped(f'SUBSTRING({text}, 2)')}"
        f" WHEN {text} LIKE '.%' THEN '0' || {_stripped(text)}"
        f" WHEN {text} LIKE '%.%' THEN {_stripped(text)} ELSE {text} END"
    )


def _stripped(digits: str) -> str:
    return f"RTRIM(RTRIM({digits}, '0'), '.')"


def _time_sql(text: str) -> str:
    clock = f"SUBSTRING({text}, 12)"
    full = (
        f"CASE WHEN LENGTH({clock}) = 5 THEN {clock} || ':00' WHEN {clock} LIKE '%.%' THEN"
        f" {_stripped(clock)} ELSE {clock} END"
    )
    return f"SUBSTRING({text}, 1, 10) || CASE {full} WHEN '00:00:00' THEN '' ELSE ' ' || {full} END"


def _is_day(text: str) -> str:
    """Whether the month has the day."""
    year, month = _whole(text, 1, 4), f"SUBSTRING({text}, 6, 5)"
    leap = f"({year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0))"
    never = listed(["02-30", "02-31", "04-31", "06-31", "09-31", "11-31"])
    return (
        f"{text} NOT LIKE '0000%' AND {month} NOT IN ({never}) AND ({month} <> '02-29' OR {leap})"
    )


def _instant_sql(text: str) -> str:
    """@ and the seconds since 1970, by the days of the Gregorian calendar before a date.

    Years begin in March, so that m = (month + 9) mod 12 months of 153 / 5 days each came before;
    719,469 days lie between 1 March of the year 0, counted from 1, and 1970.
    """
    clock = f"REPLACE(SUBSTRING({text}, 12), 'Z', '+00')"
    sign = f"(STRPOS({clock}, '+') + STRPOS({clock}, '-'))"
    time = f"TRIM(SUBSTRING({clock}, 1, {sign} - 1))"
    offset = f"REPLACE(SUBSTRING({clock}, {sign} + 1), ':', '')"
    month = f"(({_whole(text, 6, 2)} + 9) % 12)"
    year = f"({_whole(text, 1, 4)} - CASE WHEN {_whole(text, 6, 2)} < 3 THEN 1 ELSE 0 END)"
    days = (
        f"({year} * 365 + {_floor(year, 4)} - {_floor(year, 100)} + {_floor(year, 400)}"
        f" + {_floor(f'(153 * {month} + 2)', 5)} + {_whole(text, 9, 2)} - 719469)"
    )
    seconds = f"CASE WHEN LENGTH({time}) > 5 THEN {_whole(time, 7, 2)} ELSE 0 END"
    minutes = (
        f"({_whole(offset, 1, 2)} * 60 + CASE WHEN LENGTH({offset}) > 2 THEN"
        f" {_whole(offset, 3, 2)} ELSE 0 END)"
    )
    shift = f"CASE WHEN {clock} LIKE '%-%' THEN {minutes} ELSE -{minutes} END"
    total = (
        f"{days} * 86400 + {_whole(time, 1, 2)} * 3600 + {_whole(time, 4, 2)} * 60 + {seconds}"
        f" + 60 * {shift}"
    )
    return f"'@' || CAST({total} AS TEXT) || {_stripped(f'SUBSTRING({time}, 9)')}"


def _whole(text: str, start: int, length: int) -> str:
    return f"CAST(SUBSTRING({text}, {start}, {length}) AS BIGINT)"


def _floor(number: str, divisor: int) -> str:
    """Of a number from -1."""
    return f"CAST(FLOOR({number} / {divisor}.0) AS BIGINT)"


def number_sql(value: str, text: str, *, typed: bool) -> str:
    """The double of a value, perhaps an infinite one; NULL if it is not a number.

    Args:
        value: the name of a column.
        text: its text.
        typed: whether the database determines types.
    """
    plain = f"REGEXP_MATCHES({text}, '{NUMBER}') AND LENGTH({text}) <= {LONGEST_NUMBER}"
    cases = f"WHEN {plain} THEN TRY_CAST(TRIM({text}) AS DOUBLE)"
    if typed:
        types = listed(EXACT_TYPES)
        cases = f"WHEN TYPEOF({value}) IN ({types}) THEN TRY_CAST({value} AS DOUBLE) {cases}"
    return f"CASE {cases} END"


def double_sql(value: float) -> str:
    """A double in a query."""
    return f"CAST('{float(value)!r}' AS DOUBLE)"


def person_sql(text: str) -> str:
    """What distinguishes persons, of the text of an identifier; inf for several persons."""
    return (
        f"CASE WHEN REGEXP_MATCHES({text}, '{ROUNDED}') THEN 'inf'"
        f" WHEN REGEXP_MATCHES({text}, '{ZERO}') THEN '0'"
        f" WHEN REGEXP_MATCHES({text}, '{WHOLE}') THEN {_stripped(text)}"
        f" ELSE {text} END"
    )
