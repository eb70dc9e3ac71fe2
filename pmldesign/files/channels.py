"""Reading finite channels and priors: from files, from names, from the command line."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmldesign.arguments import as_numbers, doubles
from pmldesign.envelope import Channel, parse_channel
from pmldesign.envelope.mechanisms import is_channel_name
from pmldesign.errors import InvalidInputError
from pmldesign.files.atomic import PathName
from pmldesign.files.workloads import read_matrix_file, read_standard_input
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators.operator import Array


def load_channel(channel: str, prior: str) -> Channel:
    """The channel that two command-line arguments mean.

    Args:
        channel: a name for parse_channel ("rr:5,eps=1"), "-" for standard input, or a file.
        prior: "uniform", probabilities separated by commas ("0.2,0.3,0.5"), or a file.

    Raises:
        FileError: a file cannot be read.
        InvalidInputError: the contents are not a channel and a prior of its size.
    """
    if is_channel_name(channel):
        return parse_channel(channel, None if prior == "uniform" else _load_prior(prior))
    matrix = read_standard_input(_dense) if channel == "-" else read_channel(channel)
    if prior == "uniform":
        return Channel(matrix, np.full(len(matrix), 1 / len(matrix)))
    return Channel(matrix, _load_prior(prior))


def read_channel(path: PathName) -> Array:
    """The conditional matrix P(y | x), shape (k, y), in a .npy, .npz, .csv or .mtx file.

    Raises:
        FileError: missing, unreadable, damaged, or of another format.
        InvalidInputError: the contents are not a matrix of real numbers.
    """
    return read_matrix_file(path, _dense)


def read_prior(path: PathName, *, name: str = "prior") -> Array:
    """The prior in a .npy, .npz, .csv or .mtx file: one row, one column, or a vector.

    Args:
        path: the file.
        name: of the argument, for messages.

    Raises:
        FileError: missing, unreadable, damaged, or of another format.
        InvalidInputError: the contents are not a vector of real numbers.
    """
    matrix = read_matrix_file(path, _dense)
    if min(matrix.shape) != 1:
        raise InvalidInputError(
            f"{name} must be one row or one column of numbers, got shape {matrix.shape}"
        )
    return matrix.ravel()


def _load_prior(text: str) -> Array:
    numbers = as_numbers(text.split(","))
    return read_prior(text) if numbers is None else np.array(numbers)


def _dense(matrix: Any, _name: str) -> Array:
    """The content of a file as a dense two-dimensional float array."""
    if hasattr(matrix, "toarray"):
        check_entries("the sparse matrix", matrix.shape)
        matrix = matrix.toarray()
    dense = np.asarray(matrix)
    if dense.dtype.kind not in "biuf" or dense.ndim not in (1, 2) or dense.size == 0:
        raise InvalidInputError(
            f"a matrix of real numbers is needed, got {dense.dtype} of shape {dense.shape}"
        )
    return doubles(np.atleast_2d(dense))
