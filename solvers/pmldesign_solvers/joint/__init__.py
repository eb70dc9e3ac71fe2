"""Tables that are each measured by a matrix of their own, over domains of any size.

spaces      the combined information of tables, in shared coordinates
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
