"""What 40 commands take: processor seconds, peak memory, and how much of the code they enter.

    python benchmarks/commands.py [--against CHECKOUT] [--repeats 3] [--only TEXT]

Every command runs in a process of its own, one after the other in one folder, as some read what
earlier ones wrote. Seconds are processor time, the least of some runs, start of Python included.
With another checkout both take turns, and a column says how many times as long this one takes.
Files are those of the two packages in which a function is called, after imports.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DP = "--epsilon 1 --delta 1e-6"
GAUSSIAN = f"{DP} --noise gaussian"
FILES = {
    "people.csv": "sex,age\n" + "F,31\nM,17\nF,64\nM,45\nF,8\n" * 40,
    "schema.json": '{"attributes": [{"name": "sex", "keys": ["F", "M"]}, '
    '{"name": "age", "cuts": [0, 18, 65, 120]}]}',
    "counts.csv": "120\n300\n50\n30\n",
    "places.csv": "state,county\n" + "".join(f"s{i % 40},c{i}\n" for i in range(900)),
    "numbers.txt": "".join(f"{i}\n" for i in range(1, 65)),
    "study.toml": 'workloads = ["prefix:{n}"]\nn = [5, 9, 20]\np = [2, inf]\n'
    'strategies = ["least-norm", "tree"]\nguarantees = ["dp:0.5,delta=1e-6", "dp:1,delta=1e-6"]\n',
}
COMMANDS = (
    "--help",
    "workload census-p12",
    "workload prefix:64 -o prefix.csv",
    "optimize prefix:64",
    "optimize prefix:64 --p inf --neighbours replace",
    "optimize prefix:256 --rel-gap 1e-4",
    "optimize all-range:64 --p 4",
    "optimize prefix.csv --p 3",
    "optimize prefix:16 --method dual --rel-gap 1e-3",
    f"optimize prefix:64 {GAUSSIAN} -o sums.npz",
    f"optimize prefix:64 {GAUSSIAN} --report report.html",
    f"optimize census-p12 {GAUSSIAN}",
    "optimize prefix:8 --epsilon 1 --effort thorough",
    f"optimize prefix:8 {GAUSSIAN} --alpha 0.125",
    "optimize decay:3000,0.99 --buffers 8 --rel-gap 1e-3",
    "optimize prefix:720 --participation 4,every=30 --rel-gap 1e-2",
    f"optimize marginals:10^100,ways=2 {GAUSSIAN} -o tables.npz",
    "optimize marginals:prefix100,2,3,prefix12,ways=2 --rel-gap 1e-3",
    "optimize marginals:9,4,7,2,5,ways=3 --epsilon 1 --effort thorough",
    f"optimize prefix:64*prefix:64*histogram:256 {GAUSSIAN}",
    "optimize prefix:64*histogram:64+histogram:64*prefix:64 --rel-gap 0.02",
    "optimize prefix:183*histogram:12+histogram:183*total:12",
    f"optimize regions:places.csv {GAUSSIAN}",
    f"calibrate sums.npz {GAUSSIAN}",
    f"calibrate tables.npz {GAUSSIAN} --workload marginals:10^100,ways=2",
    "calibrate prefix:64 --epsilon 1 --alpha 0.01",
    "leakage prefix:8 --scale 4 --alpha 0.1",
    f"bounds prefix:64 {DP}",
    f"compare prefix:16..256 --strategies least-norm,square-root,tree,identity {GAUSSIAN}",
    "compare all-range:32 --strategies least-norm,haar,tree --epsilon 0.1,0.3,1 --delta 1e-6",
    "compare census-p12 --strategies least-norm,identity,workload --epsilon 1 --alpha 0.001",
    "envelope rr:3,eps=1 --prior 0.2,0.3,0.5 --curve",
    "target prefix:64 --std 5 --guarantee zcdp --noise gaussian",
    "plan '4*laplace:0.1 + 3*gaussian:0.5,1e-7' --delta 1e-6",
    "schema draft people.csv -o drafted.json",
    "sweep study.toml --table rows.csv",
    "verify sums.npz",
    "verify tables.npz",
    f"release sex*age+sex people.csv --schema schema.json {GAUSSIAN} -o released.csv",
    f"stream sums.npz {DP} < numbers.txt",
)
REFUSED = (1, 2, 6)
"""Exit codes of commands that did nothing; with others the bounds do not meet, and the like."""
COUNTING = """
import sys
from pathlib import Path
from pmldesign.cli import main
inside, entered = 0, set()
def called(frame, event, _):
    global inside
    imports = frame.f_code.co_name == "<module>"
    if event == "call":
        inside += imports
        if not inside:
            entered.add(frame.f_code.co_filename)
    elif event == "return":
        inside -= imports
ours = tuple(f"{Path(place)}/pmldesign" for place in sys.argv.pop().split(":"))
sys.setprofile(called)
try:
    main(sys.argv[1:], prog_name="pmldesign")
except SystemExit:
    pass
finally:
    sys.setprofile(None)
    Path("entered").write_text(str(sum(name.startswith(ours) for name in entered)))
"""


@dataclass(frozen=True)
class Run:
    """What one process took."""

    seconds: float
    megabytes: float


def run(line: str, checkout: Path, folder: Path, code: str | None = None) -> Run:
    """Run a command of a checkout in a folder."""
    command, _, given = line.partition(" < ")
    places = f"{checkout}:{checkout / 'solvers'}"
    words = ["-m", "pmldesign"] if code is None else ["-c", code]
    words += shlex.split(command) + ([] if code is None else [places])
    with (folder / given if given else Path(os.devnull)).open() as source:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": places, "OPENBLAS_NUM_THREADS": "1"},
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.stderr is not None
    with process.stderr as errors:
        said = errors.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode in REFUSED:
        raise RuntimeError(f"{line}: {said}")
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def prepared(folder: Path) -> Path:
    """A new folder with the data of the commands."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def line_of(command: str, runs: dict[Path, list[Run]], files: int) -> str:
    """A line of the table: this checkout, and how many times as much it takes as another one."""
    least = [
        (min(one.seconds for one in each), min(one.megabytes for one in each))
        for each in runs.values()
    ]
    seconds, megabytes = least[0]
    cells = [f"`{command}`", f"{seconds:.2f}", f"{megabytes:.0f}", str(files)]
    if len(least) > 1:
        cells += [f"{seconds / least[1][0]:.2f}", f"{megabytes / least[1][1]:.2f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--against", type=Path, help="another checkout, for example an older one")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="commands that hold this text, and what writes")
    options = parser.parse_args()
    checkouts = [ROOT] + ([options.against.resolve()] if options.against else [])
    names = ["command", "seconds", "MB", "files"]
    names += ["times the seconds", "times the memory"] if options.against else []
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    with tempfile.TemporaryDirectory() as scratch:
        folders = {one: prepared(Path(scratch) / str(k)) for k, one in enumerate(checkouts)}
        for command in COMMANDS:
            if options.only not in command and " -o " not in command:
                continue
            runs: dict[Path, list[Run]] = {one: [] for one in checkouts}
            for _ in range(options.repeats):
                for one, folder in folders.items():
                    runs[one].append(run(command, one, folder))
            run(command, ROOT, folders[ROOT], COUNTING)
            files = int((folders[ROOT] / "entered").read_text())
            if options.only in command:
                print(line_of(command, runs, files), flush=True)


if __name__ == "__main__":
    main()
