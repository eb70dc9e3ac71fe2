"""A command line with its files, from a seed and a number."""

from dataclasses import dataclass, field
from random import Random

from .mutations import ENDINGS, channel, damaged, encoded, matrix
from .numbers_pool import SMALL, WRONG, number, size
from .people import PARTICIPATIONS, WRONG_PARTICIPATIONS, People

NAMES = ("histogram", "total", "prefix", "all-range", "haar", "prefix", "prefix", "histogram")
BASELINES = (
    *(
        "optimal",
        "identity",
        "workload",
        "tree",
        "haar",
        "sqrt",
        "tree:3",
        "weighted-tree:2",
        "all",
    ),
    *("eigen-design", "weighted-tree:3", "tree:best"),
)
COMMANDS = {
    "optimize": 30, "compare": 15, "calibrate": 16, "bounds": 9, "leakage": 10, "envelope": 10,
    "workload": 10, "release": 20, "ask": 12, "ledger": 12, "sql": 6, "demo": 2, "verify": 8,
    "plan": 3,
}  # fmt: skip


@dataclass
class Case:
    """What a user does: files in the current folder, standard input, and a command line."""

    arguments: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""


class Writer(People):
    """Draws one case; `samples` are files that the product wrote, by what they are."""

    def __init__(self, random: Random, samples: dict[str, list[bytes]]) -> None:
        self.random = random
        self.samples = samples
        self.case = Case([])

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def rarely(self, usual: tuple[str, ...], wrong: tuple[str, ...]) -> str:
        """One of the usual values, once in twenty a wrong one."""
        return self.random.choice(wrong if self.chance(0.05) else usual)

    def option(self, name: str, value: str) -> None:
        self.case.arguments += [f"--{name}={value}"]

    def file(self, values=None, endings=ENDINGS, *, sample: bool = False) -> str:
        """The name of a file that is made for this case; many are damaged."""
        ending = self.random.choice(endings)
        if sample:
            ending, data = ".npz", self.random.choice(self.samples["strategy"])
        else:
            data = encoded(self.random, matrix(self.random) if values is None else values, ending)
        if self.chance(0.4):
            data = damaged(self.random, data)
        if self.chance(0.02):
            ending = self.random.choice(ENDINGS)
        name = f"f{len(self.case.files)}{ending}"
        self.case.files[name] = data
        return name

    def named(self) -> str:
        random = self.random
        chance = random.random()
        if chance < 0.1:
            return f"window:{size(random)},{random.choice('123')}"
        if chance < 0.2:
            return f"random-range:{size(random)},{size(random)},seed={size(random)}"
        if chance < 0.25:
            return f"parity:{random.choice('12345')},{random.choice('0123')}"
        if chance < 0.4:
            sizes = ",".join(random.choice("1234") for _ in range(random.randint(1, 4)))
            option = self.rarely(("ways", "upto"), ("way",))
            return f"marginals:{sizes},{option}={random.choice('0123')}"
        return f"{random.choice(NAMES)}:{size(random)}"

    def workload(self) -> str:
        chance = self.random.random()
        if chance < 0.45:
            return self.file()
        if chance < 0.5:
            self.case.stdin = encoded(self.random, matrix(self.random), self.random.choice(ENDINGS))
            if self.chance(0.6):
                self.case.stdin = damaged(self.random, self.case.stdin)
            return "-"
        if chance < 0.75:
            return self.named()
        if chance < 0.97:
            size = self.random.choice("12345")
            parts = [
                f"{self.random.choice(NAMES[:5])}:{size}*{self.random.choice(NAMES[:5])}:{other}"
                for other in [self.random.choice("1234")] * self.random.randint(1, 3)
            ]
            return "+".join(parts)
        return self.random.choice((*WRONG, "prefix:4*", "missing.npy", "./x", "prefix:2..8", "."))

    def strategy(self) -> str:
        chance = self.random.random()
        if chance < 0.5:
            return self.file(sample=True)
        return self.file() if chance < 0.7 else self.named()

    def guarantee(self, *, needed: bool = False) -> None:
        random = self.random
        if not needed and self.chance(0.35):
            if self.chance(0.3):
                self.option("neighbours", "replace")
            return
        self.option("epsilon", number(random))
        if self.chance(0.6):
            self.option("delta", number(random, SMALL))
        if self.chance(0.3):
            if self.chance(0.2):
                self.option("alpha-file", self.file())
            else:
                self.option("alpha", number(random, SMALL))
            if self.chance(0.3):
                self.option("failure", random.choice(("slack", "envelope")))
        elif self.chance(0.5):
            self.option("neighbours", self.rarely(("replace", "add-remove"), ("x", "")))
        if self.chance(0.3):
            self.option("noise", self.rarely(("gaussian", "laplace", "auto"), ("x", "uniform")))

    def exponent(self) -> None:
        if self.chance(0.5):
            self.option("p", number(self.random, ("2", "2.5", "3", "4", "10", "100", "inf")))

    def limits(self) -> None:
        self.option("time-limit", number(self.random, ("0.5", "1")))
        if self.chance(0.2):
            self.option("rel-gap", number(self.random, ("1e-3", "1e-6", "1e-9")))

    def optimize(self) -> None:
        self.case.arguments += ["optimize", self.workload()]
        self.exponent()
        self.guarantee()
        self.limits()
        if self.chance(0.1):
            self.option("participation", self.rarely(PARTICIPATIONS, WRONG_PARTICIPATIONS))
        self.option("effort", "quick")
        if self.chance(0.15):
            self.option("method", self.rarely(("primal", "dual"), ("scaling", "simplex")))
            if self.chance(0.5):
                self.option("solver", self.rarely(("scs", "clarabel"), ("mosek", "")))
        if self.chance(0.1):
            self.case.arguments += ["--streaming"]
        if self.chance(0.1):
            self.option("seed", size(self.random))
        if self.chance(0.3):
            self.option("output", self.rarely(("s.npz",), ("s.npy", "no/s.npz", ".")))

    def compare(self) -> None:
        count = self.random.choice((1, 1, 2))
        self.case.arguments += ["compare", *(self.workload() for _ in range(count))]
        self.exponent()
        self.guarantee()
        self.limits()
        if self.chance(0.6):
            asked = self.random.sample(BASELINES, self.random.randint(1, 3))
            if self.chance(0.05):
                asked.append(self.random.choice(("oak", "tree:x", "")))
            if self.chance(0.2):
                asked.append(self.strategy())
            self.option("strategies", ",".join(asked))
        if self.chance(0.15):
            self.option("csv", self.rarely(("rows.csv",), ("rows.txt", "no/rows.csv", "")))
        if self.chance(0.02):
            self.option("plot", self.rarely(("p.png", "p.svg"), ("p.exe",)))

    def calibrate(self) -> None:
        self.case.arguments += ["calibrate", self.strategy()]
        self.guarantee(needed=not self.chance(0.03))
        self.exponent()
        if self.chance(0.3):
            self.option("workload", self.workload())

    def bounds(self) -> None:
        self.case.arguments += ["bounds", self.workload()]
        self.exponent()
        self.guarantee(needed=True)
        self.limits()

    def leakage(self) -> None:
        self.case.arguments += ["leakage", self.strategy()]
        self.option("scale", number(self.random))
        self.option("alpha", number(self.random, SMALL))
        if self.chance(0.5):
            self.option("noise", self.rarely(("gaussian",), ("auto", "laplace")))
            self.option("epsilon", number(self.random))

    def envelope(self) -> None:
        random = self.random
        name = random.choice((f"rr:{size(random)},eps={number(random)}",
                              f"extremal:{size(random)},eps={number(random)}"))  # fmt: skip
        self.case.arguments += [
            "envelope",
            self.file(channel(random)) if self.chance(0.7) else name,
        ]
        if self.chance(0.5):
            self.option("prior", "uniform")
        elif self.chance(0.9):
            given = ",".join(number(random, SMALL) for _ in range(random.randint(1, 5)))
            self.option("prior", given if self.chance(0.6) else self.file(channel(random)[:1]))
        if self.chance(0.6):
            self.option("failure-probability", number(random, SMALL))
            if self.chance(0.2):
                self.option("output", self.rarely(("q.csv",), ("q.npy", "q", "no/q.csv")))
        elif self.chance(0.9):
            self.case.arguments += ["--curve"]
            self.option("points", number(random, ("2", "5")))

    def show_workload(self) -> None:
        self.case.arguments += ["workload"]
        if self.chance(0.97):
            self.case.arguments += [self.workload()]
        if self.chance(0.4):
            self.option("output", self.rarely(("w.npy", "w.npz", "w.csv", "w.mtx"), ("w", "")))


def draw(seed: int, index: int, samples: dict[str, list[bytes]]) -> Case:
    """Case number `index`, the same at every call."""
    writer = Writer(Random(f"{seed}/{index}"), samples)
    command = writer.random.choices([*COMMANDS], [*COMMANDS.values()])[0]
    getattr(writer, "show_workload" if command == "workload" else command)()
    if writer.chance(0.4):
        writer.case.arguments.append("--json")
    if writer.chance(0.02):
        writer.case.arguments.insert(
            1, writer.random.choice(("--help", "--unknown", "-h", "\udcff"))
        )
    return writer.case
