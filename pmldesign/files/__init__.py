"""The only place that reads or writes files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pmldesign.files.atomic import atomic_write as atomic_write
from pmldesign.files.atomic import check_writable as check_writable
from pmldesign.files.workloads import load_workload as load_workload
from pmldesign.files.workloads import read_workload as read_workload
from pmldesign.files.workloads import write_workload as write_workload

if TYPE_CHECKING:
    from pmldesign.files.channels import load_channel as load_channel
    from pmldesign.files.channels import read_channel as read_channel
    from pmldesign.files.channels import read_prior as read_prior
    from pmldesign.files.strategies import read_guarantee as read_guarantee
    from pmldesign.files.strategies import read_strategy as read_strategy
    from pmldesign.files.strategies import write_strategy as write_strategy
    from pmldesign.files.verification import verify_file as verify_file

_LATER = {
    "channels": ("load_channel", "read_channel", "read_prior"),
    "strategies": ("read_guarantee", "read_strategy", "write_strategy"),
    "verification": ("verify_file",),
}
"""What is imported when it is used: strategies need scipy, workloads do not."""


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"pmldesign.files.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
