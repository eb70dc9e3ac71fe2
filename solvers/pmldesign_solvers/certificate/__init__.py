"""Both bounds on a factorization norm, recomputed only from a solver's output."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "cells": "Certificate certify lower_bound upper_bound",
        "pairs": "laplacian_root",
    },
)
