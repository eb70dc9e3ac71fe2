"""Shapes of files: each is read as it should, or refused in one line with a remedy."""

import csv
import gzip
import io

import numpy as np
import pytest
from sex_and_age import SCHEMA

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.releases import as_schema, count_people, draft_schema

OTHER = as_schema({**SCHEMA, "outside": "other"})
PLAIN = "sex,age\nF,1\nM,20\n"
ONE_EACH = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
READ = {
    "plain.csv": PLAIN.encode(),
    "no last end.csv": PLAIN.rstrip().encode(),
    "windows.csv": PLAIN.replace("\n", "\r\n").encode(),
    "old mac.csv": PLAIN.replace("\n", "\r").encode(),
    "signature.csv": b"\xef\xbb\xbf" + PLAIN.encode(),
    "quoted.csv": b'"sex","age"\n"F","1"\n"M","20"\n',
    "blanks around numbers.csv": b"sex,age\nF, 1\nM,20 \n",
    "more columns.csv": b"id,age,sex,note\n1,1,F,\n2,20,M,x\n",
    "line ends.csv": b'sex,note,age\nF,"a\nb",1\nM,"c\n\nd\n",20\n',
    "line ends 2.csv": b'sex,note,age\r\nF,"a\nb",1\r\nM,"c\r\rd",20\r\n',
    "marks.csv": b'sex,note,age\nF,"say ""no""",1\nM,"""",20\n',
    "commas.csv": b'sex,note,age\nF,"a,b",1\nM,",",20\n',
    "header with ends.csv": b'sex,"age",note\nF,1,\nM,20,\n',
    "blank lines.csv": b"sex,age\n\nF,1\n\n\nM,20\n\n",
    "semicolons.csv": PLAIN.replace(",", ";").encode(),
    "bars.csv": PLAIN.replace(",", "|").encode(),
    "tabs.csv": PLAIN.replace(",", "\t").encode(),
    "tabs.tsv": PLAIN.replace(",", "\t").encode(),
    "packed.csv.gz": gzip.compress(PLAIN.encode()),
    "packed.tsv.gz": gzip.compress(PLAIN.replace(",", "\t").encode()),
    "UPPER.CSV": PLAIN.encode(),
    "trailing comma.csv": b"sex,age\nF,1,\nM,20,\n",
}
REFUSED = {
    "empty.csv": (b"", "first line is empty; it should have the names"),
    "blank first line.csv": (b"\nsex,age\nF,1\n", "first line is empty"),
    "long row.csv": (b"sex,age\nF,1\nF,1,2\n", "line 3 has 3 values for 2 columns"),
    "short row.csv": (b"sex,age,note\nF,1,\nF,1\n", "line 3 has 2 values for 3 columns"),
    "open mark.csv": (b'sex,age\nF,3\n"F,1\n', "a quotation mark is missing"),
    "mark 1.csv": (b'sex,age\nF,"1"2"\n', "line 2 has a quotation mark within a value; put"),
    "mark 2.csv": (b'sex,age\nF,""1\n', "line 2 has a quotation mark"),
    "mark 4.csv": (b'sex,age\nF, "1"\nM,20\n', "line 2 has a quotation mark"),
    "mark 5.csv": (b'sex,age\nF,1"\nM,20"\n', "line 2 has a quotation mark"),
    "open mark 2.csv": (b'sex,age\n"F,3\nF,1\nM,2\n', "a quotation mark is missing"),
    "mark 3.csv": (b'sex,age\n"F"x,1\n', "line 2 has a quotation mark"),
    "latin-1.csv": (b"sex,age\nF,1\n\xe9,2\n", "line 3 is not UTF-8; save the file as UTF-8"),
    "header.csv": (b"sex,age,gr\xf6\xdfe\nF,1,2\n", "header is not UTF-8; save the file as UTF-8"),
    "utf-16.csv": ("sex,age\nF,1\n".encode("utf-16"), "UTF-16 text; save the file as UTF-8"),
    "twice.csv": (b"sex,age,sex\nF,1,M\n", "column 'sex' occurs twice in the header"),
    "packed.csv": (gzip.compress(b"sex,age\nF,1\n"), r"is compressed .gzip.; name it \.csv\.gz"),
    "not packed.csv.gz": (b"sex,age\nF,1\n", "damaged or not a table"),
    "zip.csv": (b"PK\x03\x04", r"is a \.zip archive, or a workbook; save"),
    "mixed ends.csv": (b"sex,age\nF,1\r\nM,2\n", r"end all of them with \\n"),
    "mixed ends 2.csv": (b"sex,age\r\nF,1\nM,2\r\n", r"end all of them with \\n"),
    "lone return.csv": (b"sex,age\nF,1\rM,2\n", r"end all of them with \\n"),
    "damaged.parquet": (b"PAR1 no", "damaged"),
    "damaged.arrow": (b"ARROW1 no", "damaged"),
    "people.xlsx": (b"x", "a table of people ends in"),
}


@pytest.mark.parametrize("name", READ)
def test_files_of_many_shapes_are_read(tmp_path, name):
    (tmp_path / name).write_bytes(READ[name])
    assert count_people(tmp_path / name, OTHER).tolist() == ONE_EACH


@pytest.mark.parametrize("name", REFUSED)
def test_files_of_other_shapes_are_refused_in_one_line(tmp_path, name):
    content, message = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=message) as error:
        count_people(tmp_path / name, OTHER)
    assert "\n" not in str(error.value)
    assert name.split(".")[0] in str(error.value)


def test_a_file_without_a_header_is_told(tmp_path):
    (tmp_path / "people.csv").write_text("F,17\nM,20\n")
    with pytest.raises(InvalidInputError, match="looks like a row of values; write a header befor"):
        count_people(tmp_path / "people.csv", as_schema(SCHEMA))
    (tmp_path / "people.csv").write_text("1,17\n2,20\n")
    with pytest.raises(InvalidInputError, match="write a header before it: sex,age"):
        count_people(tmp_path / "people.csv", as_schema(SCHEMA))


def test_a_blank_line_is_a_missing_value_of_a_single_column(tmp_path):
    path = tmp_path / "people.csv"
    form = as_schema({"attributes": [{"name": "sex", "keys": ["F", "M"], "outside": "other"}]})
    for end in ("\n", "\r\n"):
        path.write_bytes(end.join(["sex", "F", "", "M", ""]).encode())
        assert count_people(path, form).tolist() == [1, 1, 1]
        assert draft_schema(path)["attributes"] == [{"name": "sex", "keys": ["F", "M"]}]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_values_are_those_of_the_csv_module(tmp_path, quoting, end):
    """Marks, commas and ends of lines in values, over many buffers of the reader."""
    rng = np.random.default_rng(3)
    pieces = ["F", "M", "x y", '"', '""', ",", "é", "F,1,z", '"F","1","', end, f"{end}F,1,", ""]
    notes = ["".join(rng.choice(pieces, rng.integers(0, 7))) for _ in range(20_000)]
    rows = [(("F", "M")[i % 2], str(i % 100), note * 60) for i, note in enumerate(notes)]
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=quoting).writerows([("sex", "age", "note"), *rows])
    path = tmp_path / "people.csv"
    path.write_bytes(text.getvalue().encode())
    keys = sorted({note for *_, note in rows if note and note.isprintable()})[:200]
    form = as_schema({"attributes": [{"name": "note", "keys": keys, "outside": "other"}]})
    found = count_people(path, form)
    assert found.sum() == len(rows)
    listed = [note for *_, note in rows]
    assert [listed.count(key) for key in keys[:20]] == found[:20].tolist()


def test_wide_files_are_refused_at_once(tmp_path):
    (tmp_path / "wide.csv").write_text(",".join(f"c{i}" for i in range(100_000)) + "\n")
    with pytest.raises(InvalidInputError, match="no column 'sex'; columns are c0, c1"):
        count_people(tmp_path / "wide.csv", OTHER)
    (tmp_path / "wide.csv").write_text(
        ",".join(f"c{i}" for i in range(1000)) + "\n" + ",".join(["7"] * 1000) + "\n"
    )
    assert len(draft_schema(tmp_path / "wide.csv")["attributes"]) == 1000
