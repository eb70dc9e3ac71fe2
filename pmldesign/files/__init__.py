"""The only place that reads or writes files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pmldesign.files.atomic import as_path as as_path
from pmldesign.files.atomic import atomic_write as atomic_write
from pmldesign.files.atomic import check_writable as check_writable
from pmldesign_solvers import face

if TYPE_CHECKING:
    from pmldesign.files.channels import load_channel as load_channel
    from pmldesign.files.channels import read_channel as read_channel
    from pmldesign.files.channels import read_prior as read_prior
    from pmldesign.files.strategies import read_guarantee as read_guarantee
    from pmldesign.files.strategies import read_strategy as read_strategy
    from pmldesign.files.strategies import write_strategy as write_strategy
    from pmldesign.files.verification import verify_file as verify_file
    from pmldesign.files.workloads import load_workload as load_workload
    from pmldesign.files.workloads import read_workload as read_workload
    from pmldesign.files.workloads import write_workload as write_workload

__getattr__ = face(
    __name__,
    {
        "channels": "load_channel read_channel read_prior",
        "parts": "tables_arrays",
        "strategies": "read_guarantee read_noise read_strategy write_strategy",
        "structures": "FORMS form_for",
        "verification": "verify_file",
        "workloads": "fingerprint load_workload read_workload write_workload",
    },
)
