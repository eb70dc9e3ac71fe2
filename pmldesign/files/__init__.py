"""The only place that reads or writes files."""

from pmldesign.files.atomic import atomic_write, check_writable
from pmldesign.files.channels import load_channel, read_channel, read_prior
from pmldesign.files.workloads import load_workload, read_workload, write_workload

__all__ = [
    "atomic_write",
    "check_writable",
    "load_channel",
    "load_workload",
    "read_channel",
    "read_prior",
    "read_workload",
    "write_workload",
]
