"""Running sums of people who take part several times (docs/background/streams.md).

epochs        diagonal blocks of resolvents over the classes of steps that are b apart
fixed_epochs  the weights of the dual for fixed epochs, both bounds and the strategy
patterns      the largest sum of a Gram matrix over patterns of steps, and lower bounds by weights
              of patterns
scaled_toeplitz, level_banded, poles
              strategies for steps at least b apart, by descent
"""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "epochs": "Epochs full_gram neighbouring_entries resolvent_blocks",
        "patterns": "largest_pattern",
        "scaled_toeplitz": "convolved discounted reciprocal scaled solve_banded",
    },
)
