"""The dense kernels of a step of the fixed point, with NumPy or on an accelerator.

A step needs the eigendecomposition of M = diag(r) A^T diag(u) A diag(r), M = Q S^2 Q^T, and from it
the diagonals of Q S Q^T and of A H H^T A^T for H = diag(r) Q S^(-1/2), or products Q^T D Q with a
diagonal matrix D. Vectors are NumPy arrays;
the matrices stay where they are computed.

Devices are named "cpu" for NumPy, or as PyTorch does: "cuda", "cuda:0"; "torch:cpu" is PyTorch's
own arithmetic on the processor. All of it is in double precision.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from pmldesign_solvers import markov, reflection
from pmldesign_solvers.operators import BLOCK_BYTES, Array, Operator

NUMPY = "cpu"
STRUCTURED_CELLS = 128
"""From so many cells on it pays to look for structure of the matrix to decompose."""


class Kernels(Protocol):
    """What a step needs of a workload A of shape (m, n); Q, shape (n, r), is an opaque array."""

    def eigh(self, row_weights: Array, root: Array) -> tuple[Array, Any]:
        """Eigenvalues, ascending, and eigenvectors of diag(root) K diag(root).

        K = A^T diag(row_weights) A; the shapes are (n,) and (n, n).
        """
        ...

    def diagonal(self, vectors: Any, values: Array) -> Array:
        """The diagonal of Q diag(values) Q^T, shape (n,)."""
        ...

    def row_norms(self, left: Array, vectors: Any, right: Array) -> Array:
        """Squared norms of the rows of A diag(left) Q diag(right), shape (m,)."""
        ...

    def rotated(self, vectors: Any, scale: Array) -> Array:
        """Q^T diag(scale) Q, shape (r, r), for a positive scale."""
        ...

    def load(self, vectors: Array) -> Any:
        """Q as these kernels hold it."""
        ...

    def fetch(self, vectors: Any) -> Array:
        """Q as a NumPy array."""
        ...


def kernels(operator: Operator, device: str) -> Kernels:
    """The kernels of a workload on a device that `check_device` has accepted."""
    return NumpyKernels(operator) if device == NUMPY else TorchKernels(operator, device)


def check_device(device: str) -> None:
    """Refuse a device that cannot be used.

    Raises:
        ValueError: PyTorch is missing, does not know the device, or cannot compute there.
    """
    if device == NUMPY:
        return
    if find_spec("torch") is None:
        raise ValueError(
            f"device {device!r} needs PyTorch; install it with: pip install 'pmldesign[gpu]', "
            "or leave device at 'cpu'"
        )
    import torch

    try:
        torch.ones((2, 2), dtype=torch.float64, device=_torch_name(device)).sum().item()
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).strip().split(". ")[0].splitlines()[0].rstrip(".")
        raise ValueError(
            f"device {device!r} cannot be used: {reason}; take 'cpu' for NumPy, or a device of"
            " PyTorch that computes in double precision, such as 'cuda'"
        ) from error


def _torch_name(device: str) -> str:
    return device.removeprefix("torch:")


class NumpyKernels:
    """With NumPy, from the operator's own products."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def eigh(self, row_weights: Array, root: Array) -> tuple[Array, Array]:
        """By the inverse where that is tridiagonal, by halves where reversal changes nothing."""
        gram, found = self._operator.gram(row_weights), None
        if len(root) >= STRUCTURED_CELLS:
            found = markov.decompose(gram, root)
        matrix = root[:, None] * gram * root
        if len(root) >= STRUCTURED_CELLS and found is None:
            found = reflection.decompose(matrix)
        return np.linalg.eigh(matrix) if found is None else found

    def diagonal(self, vectors: Array, values: Array) -> Array:
        """From the squares of Q."""
        return np.asarray(vectors**2 @ values)

    def row_norms(self, left: Array, vectors: Array, right: Array) -> Array:
        """By the operator's own way."""
        return self._operator.row_norms(left[:, None] * vectors * right)

    def rotated(self, vectors: Array, scale: Array) -> Array:
        """By the product of a matrix with itself, which takes half the time of others."""
        half = np.sqrt(scale)[:, None] * vectors
        return np.asarray(half.T @ half)

    def load(self, vectors: Array) -> Array:
        """The same array."""
        return vectors

    def fetch(self, vectors: Array) -> Array:
        """The same array."""
        return vectors


class TorchKernels:
    """With PyTorch, from the matrix itself, which stays on the device."""

    def __init__(self, operator: Operator, device: str) -> None:
        import torch

        self._torch, self._device = torch, torch.device(_torch_name(device))
        self._matrix = self.load(operator.to_dense())
        self._blocks = self._matrix.split(max(1, BLOCK_BYTES // (8 * operator.shape[1])))
        self._weights, self._gram = np.zeros(0), self._matrix[:0]

    def eigh(self, row_weights: Array, root: Array) -> tuple[Array, Any]:
        """As LAPACK or its like on the device does it."""
        if not np.array_equal(self._weights, row_weights):
            weighted = self.load(np.sqrt(row_weights))[:, None] * self._matrix
            self._weights, self._gram = row_weights, weighted.T @ weighted
        scale = self.load(root)
        values, vectors = self._torch.linalg.eigh(scale[:, None] * self._gram * scale)
        return self.fetch(values), vectors

    def diagonal(self, vectors: Any, values: Array) -> Array:
        """From the squares of Q."""
        return self.fetch(vectors**2 @ self.load(values))

    def row_norms(self, left: Array, vectors: Any, right: Array) -> Array:
        """By the product, block by block."""
        half = self.load(left)[:, None] * vectors * self.load(right)
        blocks = [((block @ half) ** 2).sum(dim=1) for block in self._blocks]
        return self.fetch(self._torch.cat(blocks))

    def rotated(self, vectors: Any, scale: Array) -> Array:
        """By one product."""
        return self.fetch(vectors.T @ (self.load(scale)[:, None] * vectors))

    def load(self, vectors: Array) -> Any:
        """To the device."""
        return self._torch.as_tensor(np.ascontiguousarray(vectors), device=self._device)

    def fetch(self, vectors: Any) -> Array:
        """From the device."""
        return np.asarray(vectors.cpu().numpy(), dtype=np.float64)
