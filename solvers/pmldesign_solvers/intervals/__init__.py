"""Running sums with a public total, in O(n K): neighbours move a record from a step to another.

dual        lower bounds from product weights of intervals, certified
beside      the certified value of a stream given the total, and its factor online
solve       both bounds, and the strategy, from weights of queries of few steps
"""

from pmldesign_solvers import face

__getattr__ = face(__name__, {"solve": "solve_intervals"})
