r"""The ledger: what releases from one data set have cost, and a budget that they stay within.

A file of JSON lines: first the budget, then a line for each release. Costs are exact fractions:
epsilon_i of releases with Laplace noise, mu_i^2 = Delta^2 / sigma^2 of those with Gaussian noise.
All together are (epsilon, delta)-differentially private with

    delta = delta_mu(epsilon - sum epsilon_i),    mu^2 = sum mu_i^2,

delta_mu the profile of one Gaussian release, also where later releases are chosen after earlier
ones were seen: the limits on sum epsilon_i ("pure", 0 unless the budget says otherwise) and on mu^2
are fixed when the ledger begins. kappa of the discrete Gaussian (`exact_noise`) is covered by 2^-40
of mu. Pointwise maximal leakage does not compose in this way, and is refused.

Instead, the noise of all releases may be fixed in the first line, a plan (`plan`), whose privacy
losses compose to less; each of its releases is made once, and no other. To choose noise later by
the losses so far would not be valid (arXiv 2602.06756).

The order, all under a lock: read; refuse; read and check the data; append the cost and flush it to
the disk; only then draw. A crash after that leaves the budget spent and nothing published. Nothing
is ever paid back. A last line that was not written to its end refuses everything until somebody
looks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np

from pmldesign.errors import FileError, InfeasibleError, InvalidInputError
from pmldesign.files.atomic import PathName, sync_folder
from pmldesign.release.costs.budget import (
    Budget,
    Cost,
    budget_text,
    cost_of,
    cost_text,
    require_within,
)
from pmldesign.release.costs.plan import Plan, plan_from_json
from pmldesign.release.noise.exact import ExactNoise
from pmldesign.verify.reading import once

FORMAT = 1
LIMITS = ("epsilon", "delta", "pure")
HEAD = ("ledger", "data", "unit", *LIMITS)
ENTRY = ("release", "pure", "squared_ratio")
"""Keys of the first line, and of each line of a release; a plan adds one to both."""
FRACTION = re.compile(r"[0-9]{1,4000}(/0*[1-9][0-9]{0,3999})?")
MOST_BYTES = 2**28
"""Of a ledger that is read: a million releases."""


class Account:
    """An open ledger, locked.

    Attributes:
        budget: the limits that all releases together keep.
        plan: the noise that was fixed beforehand, if any.
    """

    def __init__(
        self, handle: IO[bytes], path: Path, head: dict[str, Any], releases: list[dict[str, Any]]
    ) -> None:
        self._handle, self._path, self._head = handle, path, head
        try:
            self.budget = Budget(*(head[key] for key in LIMITS))
            self.plan = plan_from_json(head["plan"]) if "plan" in head else None
            self._spent = _total(releases)
            self._made = _numbers(releases, self.plan)
        except (KeyError, TypeError, ValueError, OverflowError, InvalidInputError):
            raise _damaged(path) from None

    def require(self, noise: ExactNoise) -> Cost:
        """The cost of a release, if the budget has room for it, or the plan has foreseen it.

        Raises:
            InvalidInputError: the release does not compose, or is about another unit of privacy.
            InfeasibleError: there is no room.
        """
        unit = unit_of(noise)
        if unit != self._head["unit"]:
            raise InvalidInputError(
                f"the ledger {str(self._path)!r} is about {self._head['unit']}, the release about "
                f"{unit}; keep a ledger for each, whose costs add up"
            )
        cost = cost_of(noise)
        if self.plan is not None:
            return replace(cost, planned=self.plan.next_for(noise, self._made))
        total = Cost(self._spent.pure + cost.pure, self._spent.squared_ratio + cost.squared_ratio)
        if not self.budget.allows(total.pure, total.squared_ratio):
            raise InfeasibleError(
                f"the budget has no room: this release has {cost_text(cost)}, those before it have "
                f"{cost_text(self._spent)}, the budget is {budget_text(self.budget)}; take a "
                "smaller epsilon"
            )
        return cost

    def spend(self, cost: Cost, what: str) -> None:
        """Write the cost down; nothing may be drawn before this returns.

        Raises:
            FileError: the system refuses to write.
        """
        entry = {
            "release": what,
            "pure": str(cost.pure),
            "squared_ratio": str(cost.squared_ratio),
            **({} if cost.planned is None else {"planned": cost.planned}),
        }
        _append(self._handle, self._path, entry)


@contextmanager
def open_ledger(
    path: PathName,
    *,
    data: PathName,
    noise: ExactNoise,
    budget: Budget | None,
    plan: Plan | None = None,
) -> Iterator[Account]:
    """Lock the ledger of a data set; a new one begins with the budget, and perhaps a plan.

    Raises:
        FileError: it cannot be read or written, or is damaged.
        InvalidInputError: no budget, or another one or another plan than it began with, or other
            data.
        InfeasibleError: the plan is more than the budget.
    """
    path, name = Path(path), os.path.realpath(data)
    cost_of(noise)
    if plan is not None and budget is not None:
        require_within(plan, budget)
    if not path.exists() or path.stat().st_size == 0:  # nothing is left of what is refused here
        if budget is None:
            raise _no_budget(path)
        if plan is not None:
            plan.next_for(noise, ())
    try:
        handle = path.open("a+b")
    except OSError as error:
        raise FileError(
            f"cannot open the ledger {str(path)!r}: {error.strerror or error}"
        ) from None
    with handle:
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            raise FileError(f"the ledger {str(path)!r} is not a regular file; name another")
        _lock(handle)
        entries = _read(handle, path)
        if not entries:
            if budget is None:
                raise _no_budget(path)
            head = {"ledger": FORMAT, "data": name, "unit": unit_of(noise), **vars(budget)}
            if plan is not None:
                head["plan"] = plan.to_json()
            _append(handle, path, head)
            entries = [head]
        head, *releases = entries
        if head["data"] != name:
            raise InvalidInputError(f"the ledger {str(path)!r} is about {head['data']!r}")
        account = Account(handle, path, head, releases)
        if budget is not None and budget != account.budget:
            raise InvalidInputError(
                f"the ledger {str(path)!r} began with {budget_text(account.budget)}; a budget is "
                "fixed beforehand: leave --budget out"
            )
        if plan is not None and plan != account.plan:
            began = "no plan" if account.plan is None else f"the plan {account.plan.text}"
            raise InvalidInputError(
                f"the ledger {str(path)!r} began with {began}; a plan is fixed beforehand: leave "
                "--plan out, or begin another ledger for other data"
            )
        yield account


def unit_of(noise: ExactNoise) -> str:
    """The unit of privacy, in words."""
    k = noise.rows_per_person
    rows = "1 row a person" if k == 1 else f"{k} rows a person"
    public, beside = noise.mechanism.workload.public, ""
    if public.groups is not None:
        groups = hashlib.sha256(public.groups.astype(np.int64).tobytes()).hexdigest()
        beside = f" beside the known answers {public.name!r} (groups {groups[:16]})"
    return f"{noise.mechanism.neighbours.value} neighbours{beside} with {rows}"


def _total(releases: list[dict[str, Any]]) -> Cost:
    pure = sum((_fraction(entry["pure"]) for entry in releases), Fraction(0))
    ratio = sum((_fraction(entry["squared_ratio"]) for entry in releases), Fraction(0))
    float(pure), float(ratio)  # OverflowError where no release can have cost so much
    return Cost(pure, ratio)


def _fraction(text: str) -> Fraction:
    """A cost as `spend` writes it: without a sign, so that nothing is paid back."""
    if not FRACTION.fullmatch(text):
        raise ValueError
    return Fraction(text)


def _numbers(releases: list[dict[str, Any]], plan: Plan | None) -> list[int]:
    """Which of the planned releases were made, each once."""
    if plan is None:
        if any("planned" in entry for entry in releases):
            raise ValueError
        return []
    numbers = [entry["planned"] for entry in releases]
    foreseen = range(len(plan.releases))
    if any(type(number) is not int or number not in foreseen for number in numbers):
        raise ValueError
    if len(set(numbers)) < len(numbers):
        raise ValueError
    return numbers


def _read(handle: IO[bytes], path: Path) -> list[dict[str, Any]]:
    """The lines of a ledger; each key once, and every number finite."""
    handle.seek(0)
    content = handle.read(MOST_BYTES + 1)
    if not content:
        return []
    try:
        if not content.endswith(b"\n") or len(content) > MOST_BYTES:
            raise ValueError
        head, *releases = (
            json.loads(line, object_pairs_hook=once) for line in content.splitlines()
        )
        if head["ledger"] != FORMAT or not {*HEAD} <= {*head} <= {*HEAD, "plan"}:
            raise ValueError
        if not all({*ENTRY} <= {*entry} <= {*ENTRY, "planned"} for entry in releases):
            raise ValueError
        str(head["data"] + head["unit"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged(path) from None
    return [head, *releases]


def _damaged(path: Path) -> FileError:
    return FileError(
        f"the ledger {str(path)!r} is damaged, perhaps its last line was not written to the end; "
        "what was spent is not known, so nothing is released"
    )


def _no_budget(path: Path) -> InvalidInputError:
    return InvalidInputError(f"{str(path)!r} is a new ledger; give --budget epsilon=3,delta=1e-6")


def _append(handle: IO[bytes], path: Path, entry: dict[str, Any]) -> None:
    try:
        handle.write(json.dumps(entry).encode() + b"\n")
        handle.flush()
        os.fsync(handle.fileno())
    except OSError as error:
        raise FileError(
            f"cannot write the ledger {str(path)!r}: {error.strerror or error}"
        ) from None
    sync_folder(path.resolve().parent)


def _lock(handle: IO[bytes]) -> None:
    try:
        import fcntl
    except ImportError:
        raise FileError("a ledger needs file locks, which this system does not have") from None
    fcntl.flock(handle, fcntl.LOCK_EX)
