"""The only place that reads or writes files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pmldesign.files.atomic import atomic_write, check_writable
from pmldesign.files.workloads import load_workload, read_workload, write_workload

if TYPE_CHECKING:
    from pmldesign.files.channels import load_channel, read_channel, read_prior
    from pmldesign.files.strategies import (
        check_strategy_path,
        read_guarantee,
        read_strategy,
        write_strategy,
    )
    from pmldesign.files.verification import verify_file

__all__ = [
    "atomic_write",
    "check_strategy_path",
    "check_writable",
    "load_channel",
    "load_workload",
    "read_channel",
    "read_guarantee",
    "read_prior",
    "read_strategy",
    "read_workload",
    "verify_file",
    "write_strategy",
    "write_workload",
]

_HOMES = {
    **dict.fromkeys(("load_channel", "read_channel", "read_prior"), "channels"),
    "verify_file": "verification",
}


def __getattr__(name: str) -> Any:
    # strategies need scipy, workloads do not; nor do they need channels
    if name in __all__:
        module = _HOMES.get(name, "strategies")
        return getattr(import_module(f"pmldesign.files.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
