"""The SQLite files that outlive a process: kinds, permissions, crashes and forks."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from children import in_a_child

from pmldesign.errors import FileError
from pmldesign.store import Kind, connect, opened, transaction

TABLES = "CREATE TABLE numbers (number INTEGER PRIMARY KEY, text TEXT NOT NULL);"
pytestmark = pytest.mark.usefixtures("quick_disk")


def rows(path, **options):
    with opened(path, Kind.SWEEP, TABLES, new=False, **options) as database:
        return [number for (number,) in database.execute("SELECT number FROM numbers")]


def add(database, *numbers):
    with transaction(database):
        for number in numbers:
            database.execute("INSERT INTO numbers VALUES (?, '')", (number,))


def begun(path, *numbers, **options):
    with opened(path, Kind.SWEEP, TABLES, new=True, **options) as database:
        add(database, *numbers)


@pytest.mark.parametrize("alone", [False, True])
def test_a_file_is_for_its_owner_and_of_one_kind(tmp_path, alone):
    path = tmp_path / "s"
    begun(path, 1, alone=alone)
    begun(path, 2, alone=alone)
    assert rows(path) == [1, 2]
    assert path.stat().st_mode & 0o777 == 0o600
    assert {file.name for file in tmp_path.iterdir()} == {"s"}
    for kind, said in ((Kind.LEDGER, "it is a sweep file"), (Kind.STREAM, "it is a sweep file")):
        with pytest.raises(FileError, match=said):
            connect(path, kind, TABLES, new=True, alone=alone)


NAMES = (":memory:", "file:x?mode=memory", "a b#c?d%20e&mode=memory", "\N{SNOWMAN}", "\udcff")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_that_of_a_file_whatever_it_means_to_sqlite(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path(name)
    begun(path, 7)
    assert path.is_file()
    assert rows(path) == [7]


def test_other_files_are_refused_and_left_alone(tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    (tmp_path / "text").write_text("no database " * 1000)
    later = tmp_path / "later"
    begun(later, 1)
    with sqlite3.connect(later) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    cut = [tmp_path / "100", tmp_path / "1"]
    for path in cut:
        path.write_bytes(later.read_bytes()[: int(path.name)])
    for path in (other, tmp_path / "text", later, *cut):
        content = path.read_bytes()
        for new, alone in ((False, False), (True, False), (False, True), (True, True)):
            with pytest.raises(FileError, match=r"of this version|not a database|malformed"):
                connect(path, Kind.SWEEP, TABLES, new=new, alone=alone)
        assert path.read_bytes() == content
    for path in (tmp_path, tmp_path / "no" / "where", Path("/dev/null"), later / "x"):
        with pytest.raises(FileError, match="cannot open the sweep file"):
            connect(path, Kind.SWEEP, TABLES, new=True)
    with pytest.raises(FileError, match="null byte"):
        connect(Path("a\0b"), Kind.SWEEP, TABLES, new=True)
    with pytest.raises(FileError, match="No such file"):
        connect(tmp_path / "missing", Kind.SWEEP, TABLES, new=False)
    assert not (tmp_path / "missing").exists()


def test_a_file_that_was_left_empty_is_begun(tmp_path):
    """As a crash leaves it that came before its first transaction."""
    path = tmp_path / "s"
    path.touch()
    for alone in (False, True):
        with opened(path, Kind.SWEEP, TABLES, new=False, alone=alone) as database:
            assert database.empty
        assert path.stat().st_size == 0
    begun(path, 1)
    assert rows(path) == [1]


def test_a_transaction_that_is_killed_or_fails_leaves_nothing(tmp_path):
    path = tmp_path / "s"
    begun(path, 1)

    def killed():
        with opened(path, Kind.SWEEP, TABLES, new=False) as database, transaction(database):
            database.execute("INSERT INTO numbers VALUES (2, '')")
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(killed) == -signal.SIGKILL
    with pytest.raises(FileError, match="UNIQUE"):
        begun(path, 3, 1)
    assert rows(path) == [1]


def test_a_process_alone_keeps_others_out_until_it_ends(tmp_path):
    path = tmp_path / "s"
    begun(path, 1, alone=True)
    first = connect(path, Kind.SWEEP, TABLES, new=False, alone=True)

    def second(**options):
        with pytest.raises(FileError, match="in use by another process"):
            rows(path, **options)

    assert in_a_child(lambda: second(alone=True)) == 0
    add(first, 2)
    first.close()
    assert rows(path, alone=True) == [1, 2]


def test_a_second_connection_of_a_process_leaves_the_locks_of_the_first(tmp_path):
    """As threads have it: to close any handle of a file ends all locks that a process has on it."""
    path = tmp_path / "s"
    begun(path, 1)
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_store import *
from pmldesign import store
store.WAIT = 0
begun(Path({str(path)!r}), 2)
"""
    with opened(path, Kind.SWEEP, TABLES, new=True) as first, transaction(first):
        connect(path, Kind.SWEEP, TABLES, new=True).close()
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert b"in use by another process" in found.stderr
    assert rows(path) == [1]


FORKS = """
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_store import TABLES, Kind, add, connect
first = connect(Path({path!r}), Kind.SWEEP, TABLES, new=True, alone=True)
add(first, 1)
child = os.fork()
if child == 0:
    first.close()
    del first
    sys.exit(0)  # an ordinary end, at which Python closes what is open
os.waitpid(child, 0)
add(first, 2)
os.kill(os.getpid(), 9)
"""


def test_the_end_of_a_forked_process_takes_nothing_from_its_parent(tmp_path):
    """SQLite in the child would write the log of the parent back, and remove it."""
    path = tmp_path / "s"
    code = FORKS.format(tests=str(Path(__file__).parent), path=str(path))
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert rows(path, alone=True) == [1, 2]
