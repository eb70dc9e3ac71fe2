"""What a solver needs from a workload: products, Gram matrices, differences of cells."""
