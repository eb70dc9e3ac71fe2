"""Tables of which each is measured by a matrix of its own, over domains of any size.

spaces      what tables tell together, in coordinates that they share
descent     the best matrices
solve       lower bounds, and both as far as the gap and the time ask for
"""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "descent": "Descent",
        "solve": "JointQuestion lower_bound",
        "spaces": "Inverse Spaces",
    },
)
