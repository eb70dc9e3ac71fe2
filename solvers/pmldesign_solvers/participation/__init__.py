"""Running sums of people who take part several times (docs/streams.md).

epochs        diagonal blocks of resolvents over the classes of steps that are b apart
fixed_point   the weights of the dual for fixed epochs, coarse to fine
fixed_epochs  both bounds and the strategy for fixed epochs
entries       more entries of the resolvents than their diagonal blocks
pattern_dual  lower bounds by weights of patterns, and the strategies that go with them
patterns      the largest sum of a Gram matrix over patterns of steps
scaled_toeplitz, banded, poles
              strategies for steps at least b apart, by descent
"""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "epochs": "Epochs full_gram neighbouring_entries resolvent_blocks",
        "patterns": "largest_pattern",
        "scaled_toeplitz": "reciprocal scaled",
    },
)
