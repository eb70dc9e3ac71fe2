"""Size limits: how large a matrix, a table or a list may be, each with its reason.

Beyond a limit the structure of a workload is used, or it is refused with its size and a remedy.
Nothing else decides that something is too large: no code predicts how long it would take.
"""

MAX_ENTRIES = 2**29
"""A matrix with more entries (4 GiB) is never materialized."""
GRAM_CELLS = 8192
"""Cells of a Gram matrix that is formed (512 MiB)."""
WRITTEN_CELLS = 2048
"""Cells of a product that is materialized if the matrix determines more than its factors."""

DENSE_CELLS = 2048
"""Cells of a union of products that is solved as one matrix (10 s at p = 2)."""
DENSE_ENTRIES = 2**26
"""Entries of such a union (512 MiB)."""
REGION_CELLS_AT_INF = 1024
"""Cells of regions that are solved as one matrix as well at p = inf (40 s; 0.5 s at p = 2)."""
FEW_WORK = 2**33
"""m^2 n of m < n queries whose add-remove design stands for more than 2048 cells under replace."""
BOUNDED_CELLS = 4096
"""Cells of structured queries whose Gram matrix bounds the norm under replace (128 MiB)."""
BOUND_WORK = 2**36
"""Multiplications of that bound for queries as a matrix, and for as many cells as get weights."""
TENT_ENTRIES = 2**26
"""Entries of tents, rows added to the identity for Laplace noise (512 MiB)."""
UNION_CELLS = 4096
"""Cells of a union of products whose matrix is decomposed for a lower bound (128 MiB)."""
MAX_PAIRS = 2**21
"""Pairs of distinct cells under replace, those of 2048: a vector of weights takes 16 MiB."""
LARGEST_ROW_SPACE = 2**24
"""Entries of a workload in coordinates of its row space, which is dense (128 MiB)."""
MAX_PROGRAM_SIZE = {"SCS": 400, "CLARABEL": 80}
"""Rows and columns of the matrix variable of a semidefinite program, together: Clarabel takes
0.7 GB for 80, 6.7 GB for 150, and aborts the process if memory is exhausted."""
MOST_SVD_WORK = 2**39
"""r n min(r, n) of measurements without structure that are inverted (6 minutes)."""

STREAM_CELLS = 1024
"""Running sums solved as one matrix (0.4 s either way; of 2048 in 4 s, as a stream 0.4 s)."""
ROUGH_CELLS = 4096
"""The same if weights jump from step to step: at p = inf streams end with a gap of 0.3%."""
PUBLIC_CELLS = 600
"""The same under replace (20 s), where the bounds of streams are 0.3 to 0.6% apart."""
LEAST_CELLS = 7
"""Running sums under replace that have no stream, whatever number of buffers is asked for."""
JOINT_CELLS = 1024
"""Cells of one of several tables that are each measured by a matrix (a step takes a second)."""
REGION_CELLS = 512
"""Regions solved as one matrix: it takes a second, and gains 0.05 to 0.5% at p <= 4."""

SEARCHED_CELLS = 1024
"""Cells of products, unions and ranges for a search over all entries for Laplace noise."""
SEARCHED_TABLES = 128
"""The same for tables: weighted tables are far ahead of anything that it has found."""
DESIGNED_CELLS = 1024
"""Values of an attribute that gets a design of its own in weighted products: a dense search."""
MOST_TABLES = 2**12
"""Tables with their parts whose weights are searched for (a step takes milliseconds)."""
MEASUREMENTS = 2**26
"""Answers or measurements of a release: each takes a draw of exact noise (67 million, minutes)."""
