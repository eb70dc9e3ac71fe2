"""What a solver needs from a workload: products, Gram matrices, differences of cells."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "dense": "DenseOperator distinct_rows first_seen without_offsets",
        "differences": "Cells Pairs diameter",
        "lbfgs": "TimeUpError descend",
        "merge": "MergedWorkload right_inverse_of sharing_gram",
        "norms": "dual_norm power_mean",
        "operator": "TINY",
        "reduce": "Columns ColumnSpaceWorkload Projected RowSpaceWorkload",
        "reference_cell": "GroundedWorkload",
    },
)
