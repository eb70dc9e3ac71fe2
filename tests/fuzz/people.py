"""People, schemas, ledgers and measurements: what users have beside matrices, often damaged."""

import json
import sqlite3
from random import Random

from .mutations import damaged
from .numbers_pool import SMALL, number

ODD = (
    *(None, True, -1, 0, 10**19, 1e308, -0.5, float("nan"), float("inf"), "", "x", "-5", "1/0"),
    *("0" * 700 + "1", "9" * 700, "\x1b[31m", "\ud800", "é", [], {}, [[]], ["a", "a"], {"a": 1}),
)
"""In place of what a JSON file says."""
TABLES = (
    "sex",
    "age",
    "sex*age",
    "total",
    "age:prefix",
    "county*sex",
    "state*age:prefix",
    "income",
)
TABLES += ("income:sum", "income:mean", "sex*income:sums", "sex*age:share", "2*sex", "age*age")
PARTICIPATIONS = ("3,any", "2,one-per=cell", "2,one-per=1x2x3", "5,one-per=2x5x6", "2,every=1")
WRONG_PARTICIPATIONS = ("0,any", "3", "any", "3,one-per=", "3,one-per=0x1x1", "3,any,any", "-1,any")
ADDRESSES = ("duckdb:///f0.db#people", "duckdb:///no.db#t", "duckdb://", "postgresql://a:b@0/x#t")


def schema(random: Random) -> dict:
    """Attributes with keys, cuts, levels or numbers, and perhaps what tells people apart."""
    place = {"name": "place", "levels": ["state", "county"], "keys": {"A": ["1", "2"], "B": ["3"]}}
    income = {"name": "income", "low": 0, "high": 10, "unit": 1}
    sex = {"name": "sex", "keys": ["F", "M"], "outside": random.choice(("refuse", "drop"))}
    attributes = [sex, {"name": "age", "cuts": [0, 18, 65, 120]}]
    if random.random() < 0.4:
        attributes.append(random.choice((place, income, {**income, "cuts": [5]})))
    content: dict = {"attributes": attributes}
    if random.random() < 0.4:
        content |= {"person": "id", "rows_per_person": random.randint(1, 3)}
        content |= random.choice(({}, {"one_per": "cell"}, {"one_per": "age"}))
    if random.random() < 0.2:
        content["suppress"] = {"relative_error": random.choice((0.3, 1, 5))}
    return content


def table(random: Random) -> bytes:
    """A few people, nearly all of them inside the schema."""
    lines = ["id,sex,age,state,county,income"]
    for _ in range(random.randint(0, 9)):
        state, county = random.choice((("A", "1"), ("A", "2"), ("B", "3")))
        sex = random.choice("FFFMMMM?") if random.random() < 0.1 else random.choice("FM")
        age, income = random.randint(0, 119), random.choice(("0", "3", "9.5", "11", "-1"))
        lines.append(f"{random.randint(1, 3)},{sex},{age},{state},{county},{income}")
    return "\n".join([*lines, ""]).encode()


def changed(random: Random, content):
    """A JSON value with something else, or nothing, in one place."""
    places = [(content, key) for key in (content if isinstance(content, dict) else ())]
    for holder, key in places:
        inner = holder[key]
        keys = range(len(inner)) if isinstance(inner, list) else inner
        if isinstance(inner, list | dict):
            places += [(inner, other) for other in keys]
    if places:
        holder, key = random.choice(places)
        if random.random() < 0.2:
            del holder[key]
        else:
            holder[key] = random.choice(ODD)
    return content


def text_of(random: Random, content: dict) -> bytes:
    """A JSON file, in a third of all cases not what it was."""
    if random.random() < 0.2:
        content = changed(random, content)
    data = json.dumps(content).encode()
    return damaged(random, data) if random.random() < 0.1 else data


def ledger(random: Random, data: bytes) -> bytes:
    """A ledger, whose columns hold anything."""
    if random.random() < 0.2:
        return damaged(random, data)
    base = sqlite3.connect(":memory:")
    base.deserialize(data)
    odd = random.choice((5, 1.5, -1, b"\xff", b"{}", "", "[]", "x", "{}", "1/0", "-1", None))
    table = random.choice(("pmldesign_ledger", "pmldesign_payment"))
    column = random.choice([row[1] for row in base.execute(f"PRAGMA table_info({table})")])
    steps = (
        (f"UPDATE OR IGNORE {table} SET {column} = ?", (odd,)),
        (f"UPDATE OR IGNORE {table} SET {column} = ?", (odd,)),
        (f"DELETE FROM {table}", ()),
        (f"DROP TABLE {table}", ()),
        ("PRAGMA user_version = 7", ()),
    )
    base.execute(*random.choice(steps))
    base.commit()
    return base.serialize()


class People:
    """Cases of the commands for people; a part of `Writer`."""

    def held(self, kind: str, ending: str, change, *, often: float = 0.4) -> str:
        """The name of a file like one that the product wrote, often changed."""
        data = self.random.choice(self.samples[kind])
        if self.chance(often):
            data = change(self.random, data)
        return self.keep(ending, data)

    def keep(self, ending: str, data: bytes) -> str:
        name = f"f{len(self.case.files)}{ending}"
        self.case.files[name] = data
        return name

    def queries(self) -> str:
        count = self.random.choice((1, 1, 2))
        return self.rarely(("+".join(self.random.sample(TABLES, count)),), ("x", "sex*", "*", ""))

    def form(self) -> None:
        self.option("schema", self.keep(".json", text_of(self.random, schema(self.random))))

    def after(self) -> None:
        """What is done to answers."""
        for name, chance in (("nonnegative", 0.15), ("integers", 0.1), ("simultaneous", 0.15)):
            if self.chance(chance):
                self.case.arguments.append(f"--{name}")
        if self.chance(0.15):
            self.option("level", number(self.random, ("0.9", "0.5", "0.999")))

    def release(self) -> None:
        table_of = self.keep(".csv", damaged(self.random, table(self.random))
                             if self.chance(0.15) else table(self.random))  # fmt: skip
        self.case.arguments += ["release", self.queries()]
        if self.chance(0.1):
            self.case.arguments.append(self.random.choice(ADDRESSES))
        else:
            self.case.arguments.append(table_of)
        self.form()
        self.option("output", self.rarely(("t.csv",), ("t.exe", "no/t.csv", "f0.csv")))
        self.option("effort", "quick")
        if self.chance(0.2):
            self.paid(share=0.8)
        else:
            self.option("epsilon", number(self.random))
            if self.chance(0.3):
                self.option("delta", number(self.random, SMALL))
            if self.chance(0.2):
                self.paid(share=0.0)
        if self.chance(0.3):
            self.option("noise", self.rarely(("gaussian", "laplace", "cube"), ("x",)))
        if self.chance(0.3):
            self.option("participation", self.rarely(PARTICIPATIONS, WRONG_PARTICIPATIONS))
        if self.chance(0.4):
            self.option("measurements", self.rarely(("m.npz",), ("m.csv", "no/m.npz", "t.csv")))
        if self.chance(0.1):
            self.case.arguments.append("--counted")
        if self.chance(0.2):
            self.option("neighbours", self.rarely(("replace", "add-remove"), ("x",)))
        self.after()

    def paid(self, *, share: float) -> None:
        """By a ledger, of which perhaps a share is taken."""
        new = self.chance(0.4)
        self.option("ledger", "new" if new else self.held("ledger", "", ledger))
        if self.chance(0.8 if new else 0.1):
            self.option(
                "budget", self.rarely(("epsilon=3,delta=1e-6", "epsilon=2"), ("epsilon", ""))
            )
        if self.chance(0.4):
            self.option("population", self.rarely(("panel",), ("", "\x1b", "p" * 300)))
        if self.chance(0.5):
            self.case.arguments.append("--confirm-same-population")
        if self.chance(share):
            self.option("share", number(self.random, ("0.2", "0.5", "1")))

    def ask(self) -> None:
        names = [
            self.held("measurements", ".npz", damaged) for _ in range(self.random.choice((1, 1, 2)))
        ]
        plain = self.random.choice(("histogram:6", "prefix:6", "total:6", "histogram:4"))
        self.case.arguments += ["ask", *names, self.queries() if self.chance(0.6) else plain]
        if self.chance(0.6):
            self.form()
        if self.chance(0.2):
            self.case.arguments.append("--nearest")
        if self.chance(0.2):
            self.option("output", self.rarely(("t.csv",), ("t.exe", "no/t.csv")))
        self.after()

    def ledger(self) -> None:
        place = self.held("ledger", "", ledger, often=0.8)
        shown = self.random.choice(("show", "show", "export"))
        there = self.rarely((place,), ("no", "sqlite://", "mysql://x"))
        self.case.arguments += ["ledger", shown, there]
        if self.chance(0.8):
            self.option("population", self.rarely(("panel",), ("", "other")))
        if self.chance(0.3) and shown == "show":
            self.option("report-delta", number(self.random, SMALL))

    def sql(self) -> None:
        self.case.arguments += ["schema", "sql", self.queries()]
        self.form()
        if self.chance(0.5):
            self.option("dialect", self.rarely(("postgres", "bigquery", "spark"), ("x",)))
        if self.chance(0.5):
            self.option("table", self.rarely(("people", 'a"b', "s.t"), ("", "a;b", "\0")))

    def demo(self) -> None:
        wrong = ("x", ""), ("no/such/folder", "f0.csv", ".")
        self.keep(".csv", b"")
        self.case.arguments += ["demo", self.random.choice((*wrong[0], "norm"))]
        self.case.arguments += [self.random.choice(wrong[1])]

    def verify(self) -> None:
        kind, ending = self.random.choice(
            (("measurements", ".npz"), ("manifest", ".manifest.json"))
        )
        self.case.arguments += ["verify", self.held(kind, ending, damaged)]

    def plan(self) -> None:
        laws = ("laplace:", "gaussian:mu=", "2*laplace:", "gaussian:1,", "cube:", "")
        terms = [
            self.random.choice(laws) + number(self.random, SMALL)
            for _ in range(self.random.randint(1, 3))
        ]
        self.case.arguments += ["ledger", "plan", "+".join(terms)]
