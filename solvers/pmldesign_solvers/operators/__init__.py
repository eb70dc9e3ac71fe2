"""What a solver needs from a workload: products, Gram matrices, differences of cells."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "coordinates": "Columns ColumnSpaceWorkload GroundedWorkload Projected RowSpaceWorkload",
        "deadline": "NEVER Deadline Effort Work",
        "dense": "DenseOperator distinct_rows first_seen without_offsets",
        "differences": "Cells Pairs diameter",
        "lbfgs": "StoppedError descend",
        "merge": "MergedWorkload closed_inverse right_inverse_of sharing_gram",
        "operator": "TINY dual_norm power_mean",
    },
)
