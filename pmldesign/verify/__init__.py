"""Checks what files claim, by code that shares nothing with the solvers.

Nothing here imports the solvers, the strategies or the privacy of this project: `docs/verify.md`
lists the definitions that it is written from. Numbers are balls (python-flint).
"""

from pmldesign.verify.report import Check as Check
from pmldesign.verify.report import Verdict as Verdict
from pmldesign.verify.report import Verification as Verification
