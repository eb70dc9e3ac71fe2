"""From people to counts: every value in its cell, bad data refused by row and column."""

import csv
import gzip
import json
import math
import re
from datetime import date

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.release import (
    as_schema,
    count_people,
    draft_schema,
    parse_queries,
    read_histogram,
    read_schema,
)
from pmldesign.release.people import comma_separated, frames

SCHEMA = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 18, 35, 120]},
    ]
}
THREE_LARGE = [{"name": name, "cuts": list(range(300))} for name in "abc"]
ROWS = [("F", "17"), ("M", "18"), ("M", "34.9"), ("F", "0"), ("M", "119")]


def write(path, rows, header="sex,age"):
    path.write_text("\n".join([header, *[",".join(row) for row in rows]]) + "\n")
    return path


def test_rows_are_counted_in_their_cells(tmp_path, monkeypatch):
    expected = [2, 0, 0, 0, 2, 1]  # F x 3 bins, M x 3 bins
    path = write(tmp_path / "people.csv", ROWS)
    schema = as_schema(SCHEMA)
    assert count_people(path, schema).tolist() == expected
    monkeypatch.setattr(frames, "BATCH", 2)  # batches do not matter
    frame = pl.DataFrame(
        {"age": [float(a) for _, a in ROWS], "extra": 0, "sex": [s for s, _ in ROWS]}
    )
    assert count_people(frame, schema).tolist() == expected
    assert count_people(nw.from_native(frame), schema).tolist() == expected
    frame.write_parquet(tmp_path / "people.parquet")
    frame.write_ipc(tmp_path / "people.arrow")
    for name in ("people.parquet", "people.arrow"):
        assert count_people(tmp_path / name, schema).tolist() == expected


def test_pieces_of_a_file_end_with_rows(tmp_path, monkeypatch):
    text = 'sex,age,note\nF,1,"a\nb"\nM,20,"say ""no"",\n"\nM,30,\n'
    (tmp_path / "people.csv").write_text(text + "X,1,\n")
    for size in range(1, 40):
        monkeypatch.setattr(comma_separated, "PIECE", size)
        with pytest.raises(InvalidInputError, match="row 4, column 'sex': 'X'"):
            count_people(tmp_path / "people.csv", as_schema(SCHEMA))
    (tmp_path / "people.csv").write_text(text.rstrip())
    assert count_people(tmp_path / "people.csv", as_schema(SCHEMA)).tolist() == [1, 0, 0, 0, 2, 0]
    monkeypatch.setattr(comma_separated, "LONGEST_ROW", 20)
    (tmp_path / "people.csv").write_text('sex,age\nF,"1' + "\nM,2" * 20)
    with pytest.raises(FileError, match="more than 20 bytes"):
        count_people(tmp_path / "people.csv", as_schema(SCHEMA))


def test_a_name_in_the_header_may_have_ends_of_lines(tmp_path, monkeypatch):
    rows = [["sex", "age", "note\n(of\r\nany kind)"], ["F", "1", "a\n\nb"], ["M", "20", "c\n"]]
    path, more = tmp_path / "people.csv", [["M", "30", "d"]] * 3
    with path.open("w", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows(rows + more)
    for size in range(1, 60, 2):
        monkeypatch.setattr(comma_separated, "PIECE", size)
        assert count_people(path, as_schema(SCHEMA)).tolist() == [1, 0, 0, 0, 4, 0]
    path.write_text('sex,"age\n' + "F,1\n" * 20)
    monkeypatch.setattr(comma_separated, "LONGEST_ROW", 20)
    with pytest.raises(FileError, match="more than 20 bytes"):
        count_people(path, as_schema(SCHEMA))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_blank_line_is_nobody_where_there_are_several_columns(tmp_path, monkeypatch, end):
    other = {**SCHEMA, "outside": "other"}
    path = tmp_path / "people.csv"
    lines = ["", "sex,age,note", "", "F,1,", "", "", 'M,20,"', "", 'F,1,"', "M,20,", ",,", "", ""]
    path.write_bytes(end.join(lines).encode())
    for size in (*range(1, 40, 3), 2**20):
        monkeypatch.setattr(comma_separated, "PIECE", size)
        # F, M and other by three bins and other; in the third row a note of three lines
        assert count_people(path, as_schema(other)).tolist() == [1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1]
    with pytest.raises(InvalidInputError, match="row 4, column 'sex': there is no value"):
        count_people(path, as_schema(SCHEMA))
    path.write_bytes(path.read_bytes() + f"F,1,2,3{end}".encode())
    with pytest.raises(FileError, match="row 5 has 4 values for 3 columns"):
        count_people(path, as_schema(SCHEMA))
    path.write_bytes(end.join(["sex", "F", "", "M", ""]).encode())
    alone = as_schema({"attributes": [{"name": "sex", "keys": ["F", "M"], "outside": "other"}]})
    assert count_people(path, alone).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (b'F,"1"2"', "row 3: "),
        (b'F,"1""', "row 3: "),
        (b'F,""1', "row 3: "),
        (b'F,"1', "row 3: "),
        (b'F,1"', "marks in it, and none around it"),
        (b'"F"",1', "row 3: "),
        (b"F,1\rM,2", "row 3 ends with a carriage return alone"),
        (b'F,"1"\rM,2', "row 3 ends with a carriage return alone"),
    ],
)
def test_a_row_with_marks_at_wrong_places_takes_no_others(tmp_path, monkeypatch, wrong, why):
    """To a reader that counts marks, those of a row make the rows behind it a part of a value."""
    path, other = tmp_path / "people.csv", as_schema({**SCHEMA, "outside": "other"})
    rows = [b"sex,age", b"F,1", b'"M",2', wrong, b"F,1", b'"F","1"', b"M,20"]
    for size in (*range(1, 40, 3), 2**20):
        monkeypatch.setattr(comma_separated, "PIECE", size)
        for lines in (rows[:4], rows, [*rows, wrong, b"F,1"]):
            path.write_bytes(b"\n".join(lines) + b"\n" * (lines != rows[:4]))
            with pytest.raises(FileError, match=why):
                count_people(path, other)
    path.write_bytes(b'sex,age\n"F","1\r"\r\nM,"2""3"\r\nF,""\r\n')
    assert count_people(path, other).tolist() == [1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]


def test_a_row_may_lack_values_behind_quotation_marks(tmp_path, monkeypatch):
    """Polars refuses every other file of this kind."""
    draw, schema = np.random.default_rng(5), as_schema({**SCHEMA, "outside": "other"})
    rows = [['"F"'], ['"M"', '"3"'], ["F", "20", '"a\nb"'], ["M", "1"], ["F", '"40"'], ['"M"', "2"]]
    cells = [3, 4, 1, 4, 2, 4]
    for size in (200, 2**20):
        monkeypatch.setattr(comma_separated, "PIECE", size)
        for _ in range(20):
            chosen = draw.integers(len(rows), size=60).tolist()
            lines = ["sex,age,note", *(",".join(rows[i]) for i in chosen)]
            (tmp_path / "people.csv").write_text("\n".join(lines))
            expected = np.bincount([cells[i] for i in chosen], minlength=12)
            assert count_people(tmp_path / "people.csv", schema).tolist() == expected.tolist()
    (tmp_path / "people.csv").write_text("\n".join([*lines, "F,1,2,3", "F,1"]))
    with pytest.raises(FileError, match="row 61 has 4 values for 3 columns"):
        count_people(tmp_path / "people.csv", schema)


def test_a_header_behind_a_mark_and_blank_lines_is_no_row(tmp_path):
    (tmp_path / "people.csv").write_bytes(b"\xef\xbb\xbf\r\nsex\nF\n")
    schema = as_schema({"attributes": [{"name": "sex", "keys": ["F"], "outside": "other"}]})
    assert count_people(tmp_path / "people.csv", schema).tolist() == [1, 0]
    assert draft_schema(tmp_path / "people.csv")["attributes"] == [{"name": "sex", "keys": ["F"]}]


def test_the_histogram_is_that_of_a_plain_loop(tmp_path):
    generator = np.random.default_rng(3)
    ages, sexes = generator.uniform(0, 120, 500), generator.choice(["F", "M"], 500)
    counts = np.zeros((2, 3), dtype=int)
    for sex, age in zip(sexes, ages, strict=True):
        counts["FM".index(sex), 0 if age < 18 else 1 if age < 35 else 2] += 1
    frame = pl.DataFrame({"sex": sexes, "age": ages})
    frame.write_csv(tmp_path / "people.csv")
    for data in (frame, tmp_path / "people.csv"):
        assert (count_people(data, as_schema(SCHEMA)) == counts.ravel()).all()


@pytest.mark.parametrize("cut", [0.1, 0.30000000000000004, 1e-300, 123456789.123456789])
def test_cuts_are_exact_at_their_ends(tmp_path, cut):
    content = {"attributes": [{"name": "x", "cuts": [-1.5, cut, 1e9]}]}
    values = [-1.5, np.nextafter(cut, -1), cut, np.nextafter(cut, 1e9), np.nextafter(1e9, 0)]
    frame = pl.DataFrame({"x": values})
    frame.write_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(map(repr, map(float, values))))
    for data in (frame, tmp_path / "x.parquet", tmp_path / "x.csv"):
        assert count_people(data, as_schema(content)).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("F", "3"), ("X", "3")], "row 2, column 'sex': 'X' is none of the keys F, M"),
        ([("F", "3"), ("M", "120")], r"row 2, column 'age': '120' is outside \[0, 120\)"),
        ([("F", "3"), ("M", "-1"), ("X", "1")], "row 2, column 'age'"),
        ([("F", "old")], "row 1, column 'age': 'old' is not a number"),
        ([("F", "nan")], "row 1, column 'age': 'nan' is outside"),
        ([("", "3")], "row 1, column 'sex': there is no value"),
        ([("sex", "age")], "row 1, column 'sex': 'sex' is none of the keys"),
        ([("F", "1_0")], "row 1, column 'age': '1_0' is not a number"),
        ([("F", "\u0663")], "row 1, column 'age': .* is not a number"),
    ],
)
def test_bad_values_are_refused_by_row_and_column(tmp_path, rows, message):
    with pytest.raises(InvalidInputError, match=message):
        count_people(write(tmp_path / "people.csv", rows), as_schema(SCHEMA))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "empty"),
        (b"sex,age\nF,1\nF,1,2\n", "damaged .* row 2 has 3 values for 2 columns"),
        (b'sex,age\nF,3\n"F,1\n', "damaged .* row 2: unexpected end"),
        (b"sex,age\nF,1\n\xe9,2\n", "row 2, column 'sex': not UTF-8"),
        (b"sex,age,gr\xf6\xdfe\nF,1,2\n", "header is not UTF-8; save the file as UTF-8"),
        ("sex,age\nF,1\n".encode("utf-16"), "UTF-16 text; save the file as UTF-8"),
        (b"sex,age,sex\nF,1,M\n", "column 'sex' occurs twice in the header"),
        (gzip.compress(b"sex,age\nF,1\n"), r"is compressed \(gzip\); unpack it"),
        (b"PK\x03\x04", r"is a \.zip archive, or a workbook; save"),
        (b"sex;age\nF;1\n", "header is one column, 'sex;age'; separate values by commas"),
        (b"sex\tage\nF\t1\n", "header is one column, .*; separate values by commas"),
        (b"sex,age\rF,1\r", "header ends with a carriage return alone"),
        (b"sex,age\rF,1\r\nM,20\r\n", "header ends with a carriage return alone"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "people.csv").write_bytes(text)
    with pytest.raises(FileError, match=message) as error:
        count_people(tmp_path / "people.csv", as_schema(SCHEMA))
    assert "\n" not in str(error.value)


def test_a_reader_that_refuses_rows_which_are_some_is_explained(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise pl.exceptions.ComputeError("expected 1 rows, actual 2 rows, in chunk 14")

    (tmp_path / "people.csv").write_text('sex,age,pipe\nF,1,5"\nM,2,6"\n')
    monkeypatch.setattr(pl, "read_csv", refuse)
    with pytest.raises(FileError, match="perhaps a value has quotation marks in it, and none arou"):
        count_people(tmp_path / "people.csv", as_schema(SCHEMA))


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfsex,age\r\nF,3\r\n", b'"sex","age"\n"F"," 3"'])
def test_marks_ends_of_lines_and_quotes_do_not_matter(tmp_path, text):
    (tmp_path / "people.csv").write_bytes(text)
    assert count_people(tmp_path / "people.csv", as_schema(SCHEMA)).tolist() == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([date(2020, 1, 1)] * 2, "row 1, column 'age': '2020-01-01' is not a number"),
        ([[1], [2]], "row 1, column 'age': a list is neither text nor a number"),
        ([3, None], "row 2, column 'age': there is no value"),
        ([3.0, float("nan")], "row 2, column 'age': there is no value"),
    ],
)
def test_other_types_of_columns_are_refused_by_row(tmp_path, values, message):
    frame = pl.DataFrame({"sex": ["F", "M"], "age": values})
    frame.write_parquet(tmp_path / "people.parquet")
    for data in (frame, tmp_path / "people.parquet"):
        with pytest.raises(InvalidInputError, match=message):
            count_people(data, as_schema(SCHEMA))


def test_a_missing_column_and_a_missing_file_are_named(tmp_path):
    path = write(tmp_path / "people.csv", [("F", "1")], header="sex,years")
    with pytest.raises(InvalidInputError, match="no column 'age'; columns are sex, years"):
        count_people(path, as_schema(SCHEMA))
    for header, alike in (("sex, age", "' age'"), ("sex,AGE", "'AGE'")):
        write(path, [("F", "1")], header=header)
        with pytest.raises(InvalidInputError, match=f"did you mean {alike}"):
            count_people(path, as_schema(SCHEMA))
    with pytest.raises(InvalidInputError, match="got LazyFrame; collect what is lazy"):
        count_people(pl.LazyFrame({"sex": ["F"], "age": [1]}), as_schema(SCHEMA))
    with pytest.raises(FileError, match="no such file"):
        count_people(tmp_path / "nobody.csv", as_schema(SCHEMA))
    with pytest.raises(InvalidInputError, match="data frame, got list"):
        count_people([1, 2], as_schema(SCHEMA))


def test_other_values_get_a_key_or_are_dropped(tmp_path):
    path = write(tmp_path / "people.csv", [("F", "3"), ("X", "200"), ("", "1")])
    content = {
        "attributes": [
            {"name": "sex", "keys": ["F", "M"], "outside": "other"},
            {"name": "age", "cuts": [0, 120], "outside": "drop"},
        ]
    }
    schema = as_schema(content)
    assert schema.sizes == (3, 1)
    assert count_people(path, schema).tolist() == [1, 0, 1]
    schema.require_release(Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidInputError, match="depend on the data"):
        schema.require_release(Neighbours.REPLACE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes": []}, "no attributes"),
        ({"attributes": 3}, 'needs "attributes"'),
        ({"attributs": 1}, "'attributs'; known are"),
        ({"rows_per_person": 0}, "rows_per_person must be a whole number"),
        ({"attributes": [{"name": "a"}]}, 'either "keys" or "cuts"'),
        ({"attributes": [{"name": "a*b", "keys": [1]}]}, "a name is printable"),
        ({"attributes": [{"name": "a ", "keys": [1]}]}, "without blanks at its ends"),
        ({"attributes": [{"name": "lower", "keys": [1]}]}, "no column of the published table"),
        ({"attributes": [{"name": "a", "keys": []}]}, "at least one key"),
        ({"attributes": [{"name": "a", "keys": [1, "1"]}]}, "different"),
        ({"attributes": [{"name": "a", "keys": [1, "1.0"]}]}, "2 and 2.0 are the same"),
        ({"attributes": [{"name": "a", "keys": [True, "TRUE"]}]}, "so are true and True"),
        ({"attributes": [{"name": "a", "keys": ["*"]}]}, "different printable"),
        ({"attributes": [{"name": "a", "cuts": [1, 1]}]}, "must increase"),
        ({"attributes": [{"name": "a", "cuts": [True, 2]}]}, "two numbers"),
        ({"attributes": [{"name": "a", "keys": [1], "outside": 3}]}, "outside must be"),
        ({"attributes": [{"name": "a", "keys": [1], "outside": "*"}]}, "outside must be"),
        ({"attributes": [{"name": "a", "cuts": [0, 1], "outside": "a\nb"}]}, "outside must be"),
        ({"one_per": ["sex"]}, 'one_per must be "cell" or an attribute'),
        ({"one_per": {}}, 'one_per must be "cell" or an attribute'),
        ({"attributes": [{"name": "a", "keys": [1], "ordered": 1}]}, "ordered must be"),
        ({"attributes": [{"name": "a", "cuts": [1, 2], "ordered": False}]}, "true for cuts"),
        ({"attributes": [{"name": "a", "keys": [1]}] * 2}, "occurs twice"),
    ],
)
def test_wrong_schemas_are_refused(change, message):
    with pytest.raises(InvalidInputError, match=message):
        as_schema({**SCHEMA, **change})


def test_a_draft_is_refused_until_it_is_reviewed(tmp_path):
    generator = np.random.default_rng(1)
    rows = [(str(generator.choice(["F", "M"])), f"{a:.1f}") for a in generator.uniform(3, 97, 200)]
    path = write(tmp_path / "people.csv", rows)
    draft = draft_schema(path)
    assert draft["attributes"][0] == {"name": "sex", "keys": ["F", "M"]}
    assert draft["attributes"][1]["cuts"] == [*range(0, 101, 10)]
    schema = as_schema(draft)
    with pytest.raises(InvalidInputError, match="draft"):
        schema.require_release(Neighbours.ADD_REMOVE)
    assert count_people(path, schema).sum() == 200
    del draft["reviewed"]
    (tmp_path / "schema.json").write_text(json.dumps(draft))
    read_schema(tmp_path / "schema.json").require_release(Neighbours.REPLACE)
    (tmp_path / "schema.json").write_text("{")
    with pytest.raises(FileError, match="not JSON"):
        read_schema(tmp_path / "schema.json")


def test_a_draft_has_the_keys_of_every_kind_of_column(tmp_path):
    frame = pl.DataFrame(
        {"b": [True, False], "f": [2.0, math.nan], "d": [date(2020, 1, 2), None], "l": [[1], [2]]}
    )
    frame.write_parquet(tmp_path / "people.parquet")
    for data in (tmp_path / "people.parquet", frame):
        keys = {entry["name"]: entry["keys"] for entry in draft_schema(data)["attributes"]}
        assert keys == {"b": ["false", "true"], "f": ["2"], "d": ["2020-01-02"]}


def test_a_draft_is_a_schema_and_says_what_it_leaves_out(tmp_path):
    names = ["sex", "estimate", "a*b", "end ", "code", "mark", "large", "none"]
    with (tmp_path / "people.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(names)
        for i in range(100):
            writer.writerow(
                ["FM"[i % 2], i % 3, i % 3, i % 3, f"{i:03}", "*xy"[i % 3], f"1_{i}", ""]
            )
    draft = draft_schema(tmp_path / "people.csv")
    assert draft["attributes"] == [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "mark", "keys": ["x", "y"]},
    ]
    assert "left out: estimate, a*b, end , code, large, none" in draft["notes"]
    assert as_schema(draft).sizes == (2, 2)
    (empty,) = [note for note in draft["notes"] if "end a release" in note]
    assert empty.startswith("rows without a key or number, in mark, end")
    with pytest.raises(InvalidInputError, match="none of the keys"):
        count_people(tmp_path / "people.csv", as_schema(draft))
    for entry in draft["attributes"]:
        entry["outside"] = "other"
    assert count_people(tmp_path / "people.csv", as_schema(draft)).sum() == 100


@pytest.mark.parametrize(
    ("text", "lacks"),
    [("", True), ("nan", True), ("inf", True), ("*", True), ("old", False), ("7", False)],
)
def test_a_draft_says_where_rows_have_nothing_that_it_reads(tmp_path, text, lacks):
    with (tmp_path / "people.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([["sex", "age"], *(["F", age] for age in range(60))])
        csv.writer(handle).writerow(["F", text])
    draft = draft_schema(tmp_path / "people.csv")
    assert any("without a key or number, in age," in note for note in draft["notes"]) == lacks
    if text != "7":
        return
    assert count_people(tmp_path / "people.csv", as_schema(draft)).sum() == 61


@pytest.mark.parametrize(
    "numbers",
    [
        [10**15 + i for i in range(60)],
        [-(10**18) - 1000 * i for i in range(60)],
        [2**53 - i for i in range(60)],
        [1 + i * 2.0**-52 for i in range(60)],
        [i * 5e-324 for i in range(60)],
        [10.0**300 * i for i in range(60)],
        [-1.7e308, 1.7e308, *range(58)],
        [0.1 * i for i in range(60)],
        [1e22 + 4e6 * i for i in range(60)],
    ],
    ids=lambda numbers: f"{numbers[1]}",
)
def test_drafted_cuts_hold_numbers_of_any_size(tmp_path, numbers):
    write(tmp_path / "people.csv", [(repr(number),) for number in numbers], header="a")
    (tmp_path / "schema.json").write_text(json.dumps(draft_schema(tmp_path / "people.csv")))
    schema = read_schema(tmp_path / "schema.json")
    counts = count_people(tmp_path / "people.csv", schema)
    assert counts.sum() == 60
    (attribute,) = schema.attributes
    assert len(counts) <= 60
    for low, high, label in zip(attribute.cuts, attribute.cuts[1:], attribute.labels, strict=False):
        assert label == attribute.range_label(*[attribute.labels.index(label) + i for i in (0, 1)])
        assert [*map(float, label[1:-1].split(", "))] == [low, high]


def test_labels_of_ranges_have_all_digits():
    cuts = [0, 1234567, 1234568, 0.1 + 1234569, 10**20]
    (attribute,) = as_schema({"attributes": [{"name": "a", "cuts": cuts}]}).attributes
    assert attribute.range_label(1, 3) == "[1234567, 1234569.1)"
    assert attribute.labels[3] == "[1234569.1, 1e+20)"
    with pytest.raises(InvalidInputError, match=re.escape("'1e21' is outside [0, 1e+20)")):
        attribute.code("1e21")


def test_queries_by_name_are_those_of_sums_over_the_other_attributes():
    schema = as_schema(
        {"attributes": [*SCHEMA["attributes"], {"name": "region", "keys": ["N", "S"]}]}
    )
    x = np.random.default_rng(2).integers(0, 99, (2, 3, 2))
    queries = parse_queries("region*sex + age:prefix + total + age:all-range*sex", schema)
    answers = queries.workload.matvec(x.ravel().astype(float))
    ranges = [x[:, a:b, :].sum(axis=(1, 2)) for a in range(3) for b in range(a + 1, 4)]
    expected = [x.sum(1).ravel(), x.sum((0, 2)).cumsum(), [x.sum()], np.array(ranges).T.ravel()]
    assert answers.tolist() == np.concatenate(expected).tolist()
    labels = queries.labels()
    rows = list(zip(*labels.values(), strict=True))
    assert labels.keys() == {"sex", "age", "region"}
    assert rows[:5] == [
        ("F", "*", "N"),
        ("F", "*", "S"),
        ("M", "*", "N"),
        ("M", "*", "S"),
        ("*", "[0, 18)", "*"),
    ]
    assert rows[5:8] == [("*", "[0, 35)", "*"), ("*", "*", "*"), ("*", "*", "*")]
    assert rows[9] == ("F", "[0, 35)", "*")
    assert len(rows) == len(answers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sexx", "did you mean 'sex'"),
        ("sex, age", r"write sex\*age for combinations, sex \+ age for each alone"),
        ("sum(age)", "write age for the counts of its values; for sums and means give it low and"),
        ("mean(income)", r"no attribute 'mean\(income\)'; it has sex, age"),
        ("sex*sex", "named twice"),
        ("age:haar", "none of histogram"),
        ("age:window", "takes 2 sizes"),
        ("sex*", r"no attribute ''; write names on both sides of \* and \+"),
        ("AGE", "did you mean 'age'"),
    ],
)
def test_wrong_queries_are_refused(text, message):
    with pytest.raises(InvalidInputError, match=message):
        assert parse_queries(text, as_schema(SCHEMA)).workload


@pytest.mark.parametrize("text", ["e:prefix", "sex*e:all-range", "sex + e : window,1"])
@pytest.mark.parametrize("keys", [["12years", "9years"], [1, 2]])
def test_sums_over_keys_need_an_order(text, keys):
    """Codes that are numbers are in no order by themselves: 1 is married, 2 is single."""
    entry = {"name": "e", "keys": keys}
    with pytest.raises(InvalidInputError, match=r"keys of 'e' are in none; .*\"ordered\": true"):
        parse_queries(text, as_schema({"attributes": [SCHEMA["attributes"][0], entry]}))
    with pytest.raises(InvalidInputError, match="prefix:2"):
        parse_queries(
            "marginals:2,prefix2,ways=1",
            as_schema({"attributes": [*SCHEMA["attributes"][:1], entry]}),
        )
    ordered = as_schema({"attributes": [SCHEMA["attributes"][0], {**entry, "ordered": True}]})
    assert parse_queries(text, ordered).workload.shape[1] == 4
    assert parse_queries("marginals:2,prefix2,ways=1", ordered).workload.shape[1] == 4


def test_a_draft_notices_columns_that_tell_others(tmp_path):
    """Lecturers tell their department; numbers that all differ tell nothing."""
    rows = [
        {"department": i % 4 // 2, "lecturer": f"l{i % 4}", "id": float(i), "sex": "FM"[i % 3 == 0]}
        for i in range(2000)
    ]
    frame = pl.DataFrame(rows)
    frame.write_csv(tmp_path / "people.csv")
    frame.write_parquet(tmp_path / "people.parquet")
    changed = frame.with_columns(
        department=pl.when(pl.int_range(2000) == 1999).then(0).otherwise(pl.col("department"))
    )
    for data in (frame, tmp_path / "people.csv", tmp_path / "people.parquet"):
        unordered, different, told = draft_schema(data)["notes"]
        assert '"ordered": true' in unordered
        assert different.startswith("'id' has another value in each row")
        assert told.startswith("'lecturer' tells 'department'")
        assert '"levels"' in told
    assert len(draft_schema(changed)["notes"]) == 2
    assert draft_schema(frame.select("id"))["notes"] == [different]


def test_a_draft_notices_rows_without_a_value_and_numbers_of_people(tmp_path):
    frame = pl.DataFrame(
        {
            "id": [*range(1, 101)],
            "age": [None if i == 7 else i / 2 for i in range(100)],
            "sex": ["" if i == 9 else "FM"[i % 2] for i in range(100)],
            "visits": [i // 2 for i in range(100)],
        }
    )
    frame.write_csv(tmp_path / "people.csv")
    for data in (frame, tmp_path / "people.csv"):
        _, empty, different = draft_schema(data)["notes"]
        assert empty.startswith("rows without a key or number, in age, sex, end a release")
        assert different.startswith("'id' has another value")
    draft = {**draft_schema(frame), "reviewed": True}
    with pytest.raises(InvalidInputError, match=r"there is no value; \"outside\": \"drop\""):
        count_people(frame, as_schema(draft))
    assert count_people(frame, as_schema({**draft, "outside": "drop"})).sum() == 98


def test_of_a_large_domain_only_tables_are_asked():
    large = as_schema({"attributes": THREE_LARGE})
    assert parse_queries("a*b + c", large).workload.subsets == ((0, 1), (2,))
    running = parse_queries("a:prefix*b + c", large).workload
    assert running.shape == (299**2 + 299, large.cells)
    both = parse_queries("a:prefix + a", large).workload
    assert both.shape == (2 * 299, large.cells)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, -2, 3], "cell 1 .* has -2"),
        ([1, 2.5, 3], "cell 1 .* has 2.5"),
        ([1, np.nan, 3], "cell 1 .* has nan"),
        ([[1], [-2], [3]], r"cell 1 \(from 0: row 2, column 1\) has -2"),
        ([1, 2], "of 3 counts"),
        ([2**52, 2**52, 1], r"2\^53"),
        ([1, 1e300, 1], r"cell 1 .* has 1e\+300"),
        ([1, [2], 3], "rows of one length"),
        (["a", "b", "c"], "must hold real numbers"),
    ],
)
def test_wrong_histograms_are_refused(counts, message):
    with pytest.raises(InvalidInputError, match=message):
        read_histogram(counts, 3)


def test_a_histogram_may_be_a_row_a_column_or_a_file(tmp_path):
    (tmp_path / "x.csv").write_text("3\n0\n5\n")
    for data in (tmp_path / "x.csv", [3, 0, 5], np.array([[3, 0, 5]])):
        assert read_histogram(data, 3).tolist() == [3, 0, 5]
