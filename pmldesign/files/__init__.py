"""The only place that reads or writes files."""

from pmldesign.files.atomic import atomic_write, check_writable
from pmldesign.files.strategies import check_strategy_path, read_strategy, write_strategy
from pmldesign.files.workloads import load_workload, read_workload, write_workload

__all__ = [
    "atomic_write",
    "check_strategy_path",
    "check_writable",
    "load_workload",
    "read_strategy",
    "read_workload",
    "write_strategy",
    "write_workload",
]
