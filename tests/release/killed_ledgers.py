"""Processes that release from one ledger at the same time; each is killed, or its disk is full."""

import os
import resource
import signal
import time
import traceback
from contextlib import nullcontext, suppress

import numpy as np

from pmldesign.errors import FileError, InfeasibleError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PureDP
from pmldesign.releases import Ledger, carry_out, prepare, read_ledger

PEOPLE, COST = "panel", 0.125
"""Of one release, of a budget of 1."""
FULL = 20_000
"""More bytes than any of the files has."""


def prepared_release():
    return prepare(mechanism("identity", "histogram:3", guarantee=PureDP(COST)))


def releases(prepared, place, folder, number):
    """Release until there is no room; every table has a name of its own."""
    ledger = Ledger(place, PEOPLE, budget="epsilon=1")
    for count in range(20):
        try:
            carry_out(
                prepared, folder / "x.npy", ledger=ledger, output=folder / f"{number}-{count}.csv"
            )
        except InfeasibleError:
            return


def attacked(prepared, place, folder, rng, *, processes, longest):
    """Start processes, kill two thirds at random moments, and what was wrong afterwards.

    The last third ends by itself, where a file that it writes becomes too long at the latest.
    """
    np.save(folder / "x.npy", np.array([3, 1, 4]))
    ends = []
    for number in range(processes):
        full = int(FULL ** rng.random()) if number % 3 == 2 else 0
        child = os.fork()
        if child == 0:
            if full:
                resource.setrlimit(resource.RLIMIT_FSIZE, (full, full))
            code = 99
            try:
                with suppress(FileError) if full else nullcontext():
                    releases(prepared, place, folder, number)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        ends.append((time.monotonic() + rng.uniform(0, longest), child, full))
    codes = []
    for end, child, full in sorted(ends):
        time.sleep(max(0.0, end - time.monotonic()))
        if not full:
            os.kill(child, signal.SIGKILL)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    releases(prepared, place, folder, "last")  # what is left can still be spent, and no more
    account = read_ledger(place, PEOPLE)
    published = [*folder.glob("*-*.csv")]
    spent = account.spent.pure
    wrong = [f"exit codes {codes}"] if set(codes) - {0, -signal.SIGKILL} else []
    wrong += ["over budget"] if spent > 1 else []
    wrong += ["money is left"] if spent <= 1 - COST else []
    wrong += ["published unpaid"] if len(published) > len(account.payments) else []
    wrong += (
        ["no manifest"]
        if not all(p.with_suffix(".manifest.json").exists() for p in published)
        else []
    )
    return wrong, len(published), codes.count(-signal.SIGKILL)
