"""What tests of files share."""

import io
import zipfile

import numpy as np

MATRIX = np.array([[0.1, -2.0, 1e-300], [1 / 3, 0.0, 2.0**60], [1.0, 1e17, -0.0]])


def assert_friendly(error, exit_code):
    """One line, the right code, and nothing of what went on inside."""
    assert error.exit_code == exit_code
    assert "\n" not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def bytes_of(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def zip_of(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()
