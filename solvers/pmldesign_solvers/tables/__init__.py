"""Tables that cross plain attributes with ordered ones: strategies and bounds at any size.

problem         the workload, and the closed form that strategies and bounds share
free_vector     the strategy whose total is predicted along a free vector
even_weights    the same with the weights of sets that are best at p = inf
apart           the same where records are replaced and distances count
sectors         sets of plain attributes with equal queries, and small matrices on the few
                directions of each ordered attribute that lower bounds keep
variances       those of all answers, rounded up
upper_bound     the certified value of a strategy
lower           lower bounds, certified; frames has the directions that they keep
solve           strategies with their certified values, in turn, as far as gap and time ask for
"""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "even_weights": "extreme_queries length_rows variance_rows",
        "free_vector": "Coordinates Measured",
        "lower": "DualPoint PairBound SectorBound lower_bound",
        "problem": "Tables",
        "query_weights": "Question weighted",
        "variances": "Asked Variances",
    },
)
