"""Power cuts between any two system calls of a stream or a ledger: nothing is lost that has left.

    python tests/robustness/power.py [seed]

strace notes every write, flush, new name and removed name of a process that takes steps, or that
releases and publishes. For every moment disks are made as a power cut may leave them: what was
flushed is there, and of everything else nothing, all of it, or a part, in five ways. On each disk
every answer and every table that had left by then has to be paid for and kept, and work goes on.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from pmldesign import store
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ZCDP, PureDP
from pmldesign.releases import Ledger, carry_out, prepare
from pmldesign.streams import FloatingGaussian, Journal, endless_stream

CALL = re.compile(r"\d+ +(\w+)\((.*)\) += +(\d+)")
HEX = r"(?:\\x[0-9a-f]{2})*"
HANDLE, TEXT = re.compile(rf"(\d+)<({HEX})>"), re.compile(rf'"({HEX})"')
TRACED = "openat,pwrite64,write,fsync,fdatasync,ftruncate,unlink,unlinkat,rename,renameat,renameat2"
WAYS = ("nothing", "everything", "a part", "a part", "a part")


def stream(folder):
    return Journal(endless_stream(ZCDP(0.5), noise=FloatingGaussian()), folder / "state")


def taking(folder):
    """Three commits, a restart, and two more; each answer leaves when its commit returns."""
    for counts in ((1, 3, 1), (1, 2)):
        journal = stream(folder)
        for count in counts:
            values, _ = journal.steps([5.0] * count)
            os.write(1, f"LEFT {json.dumps([journal.position, values.tolist()])}\n".encode())
        journal.close()


def answers_are_kept(folder, left):
    """What is wrong with a stream on a disk, for what has left."""
    journal = stream(folder)
    try:
        expected = [value for _, values in left for value in values]
        if journal.position < len(expected):
            return "an answer is lost, and its step would be taken again"
        found = [journal.again(t, 5.0).value for t in range(1, len(expected) + 1)]
        if found != expected:
            return "other answers"
        journal.step(5.0)
    finally:
        journal.close()
    return None


def prepared():
    return prepare(mechanism("identity", "histogram:3", guarantee=PureDP(0.25)))


def releasing(folder):
    """Three releases, each with a table."""
    np.save(folder / "x.npy", np.array([3, 1, 4]))
    ready = prepared()
    for number in range(3):
        ledger = Ledger(folder / "ledger", budget="epsilon=1")
        carry_out(ready, folder / "x.npy", ledger=ledger, output=folder / f"{number}.csv")
        os.write(1, f"LEFT {number + 1}\n".encode())


def tables_are_paid(folder, left):
    """What is wrong with a ledger on a disk, for what was published."""
    account = Ledger(folder / "ledger").account()
    paid = 0 if account is None else len(account.payments)
    tables = [path for path in folder.glob("*.csv") if path.stat().st_size]
    if paid < max([len(tables), *left]):
        return "published unpaid"
    for _ in range(4 - paid):
        ledger = Ledger(folder / "ledger", budget="epsilon=1", confirm_same_population=True)
        np.save(folder / "x.npy", np.array([3, 1, 4]))
        carry_out(prepared(), folder / "x.npy", ledger=ledger)
    return None if len(Ledger(folder / "ledger").account().payments) == 4 else "money is lost"


class Disk:
    """What is on a disk, and what is only in the memory of the system.

    Args:
        folder: whose files count.
    """

    def __init__(self, folder):
        self.folder, self.left = str(folder), []
        self.files = []  # durable content, and later changes
        self.names, self.flushed, self.renamed = {}, {}, []  # now, durable, and later changes

    def take(self, name, arguments, result):
        """Follow a system call; whether it was one that counts."""
        handle, texts = HANDLE.match(arguments), [plain(x) for x in TEXT.findall(arguments)]
        path = plain(handle[2]).decode() if handle else ""
        numbers = arguments.rsplit(",", 1)[-1]
        if name == "write" and handle[1] == "1" and texts[0].startswith(b"LEFT"):
            self.left.append(json.loads(texts[0][5:]))
        elif name == "openat" and texts[0].decode().startswith(self.folder):
            self._open(texts[0].decode(), arguments)
        elif name.startswith(("unlink", "rename")) and texts[0].decode().startswith(self.folder):
            before, after = [text.decode() for text in (*texts, b"")[:2]]
            self._rename_now(before, after)
        elif not path.startswith(self.folder):
            return False
        elif name in ("pwrite64", "write"):
            at = int(numbers) if name == "pwrite64" else None
            self._change(path, ("write", at, texts[0][: int(result)]))
        elif name == "ftruncate":
            self._change(path, ("cut", int(numbers), b""))
        elif path in self.names:
            held = self.files[self.names[path]]
            held[:] = [changed(*held), []]
        elif path == self.folder:
            for pair in self.renamed:
                renamed(self.flushed, self.names, *pair)
            self.renamed = []
        return True

    def _open(self, path, arguments):
        if path not in self.names and "O_CREAT" in arguments:
            self.names[path] = len(self.files)
            self.files.append([b"", []])
            self.renamed.append((self.names[path], path))
        if "O_TRUNC" in arguments and path in self.names:
            self._change(path, ("cut", 0, b""))

    def _rename_now(self, before, after):
        self.renamed.append((before, after))
        renamed(self.names, self.names, before, after)

    def _change(self, path, change):
        if path in self.names:
            self.files[self.names[path]][1].append(change)

    def cut(self, folder, way, rng):
        """Make the folder as the disk is after a power cut."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        share = {"nothing": 0.0, "everything": 1.0}.get(way, 0.5)
        names = dict(self.flushed)
        for pair in self.renamed:
            if rng.random() < share:
                renamed(names, self.names, *pair)
        for name, number in names.items():
            durable, later = self.files[number]
            content = changed(durable, [change for change in later if rng.random() < share])
            (folder / Path(name).name).write_bytes(content)


def plain(text):
    return bytes.fromhex(text.replace("\\x", ""))


def renamed(names, now, before, after):
    """Change names: a new file is given by its number, a removed one has no name after."""
    number = before if isinstance(before, int) else names.pop(before, now.get(after))
    if after and number is not None:
        names[after] = number


def changed(content, changes):
    """A file after some changes."""
    content = bytearray(content)
    for kind, at, data in changes:
        start = len(content) if at is None else at
        content.extend(bytes(max(0, start - len(content))))
        if kind == "cut":
            del content[start:]
        content[start : start + len(data)] = data
    return bytes(content)


def attacked(work, check, rng):
    """Cut the power at every moment of some work; what was wrong, and how many disks there were."""
    wrong, disks = Counter(), 0
    with tempfile.TemporaryDirectory() as name:
        folder, copy, trace = Path(name) / "here", Path(name) / "copy", Path(name) / "trace"
        folder.mkdir()
        words = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={TRACED}", "-o", trace]
        code = [sys.executable, __file__, "--work", work.__name__, folder]
        subprocess.run([*words, *code], check=True, stdout=subprocess.DEVNULL)
        disk, store.SYNCHRONOUS = Disk(folder), "OFF"
        for line in trace.read_text().splitlines():
            call = CALL.match(line)
            if call is None or not disk.take(*call.groups()):
                continue
            for way in WAYS:
                disk.cut(copy, way, rng)
                disks += 1
                try:
                    found = check(copy, disk.left)
                except Exception as error:
                    found = f"{type(error).__name__}: {error}"
                wrong.update([found] if found else [])
    return wrong, disks


def main(seed=0):
    """Attack, print what was found, and return how much was wrong."""
    rng, total = np.random.default_rng(seed), 0
    for work, check in ((taking, answers_are_kept), (releasing, tables_are_paid)):
        wrong, disks = attacked(work, check, rng)
        print(f"{work.__name__}: {disks} disks, {dict(wrong) or 'nothing wrong'}", flush=True)
        total += wrong.total()
    return total


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        {"taking": taking, "releasing": releasing}[sys.argv[2]](Path(sys.argv[3]))
    else:
        sys.exit(main(*map(int, sys.argv[1:])) > 0)
