"""A .csv of people in pieces: marks, ends of lines, blank lines and damage."""

import csv
import gzip

import numpy as np
import polars as pl
import pytest
from sex_and_age import SCHEMA

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.release import (
    as_schema,
    count_people,
    draft_schema,
)
from pmldesign.release.people import comma_separated


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
