"""Files of every format, and what may have happened to them on their way."""

import io
import re
from random import Random

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from .numbers_pool import EXTREME, WRONG

ENDINGS = (".npy", ".npz", ".csv", ".mtx")
NUMBER = re.compile(rb"[-+]?\d[\d.eE+-]*")


def matrix(random: Random):
    """A small matrix: 0 and 1, whole numbers, real numbers; of any scale, sometimes degenerate."""
    rng = np.random.default_rng(random.getrandbits(64))
    m, n = random.choice((1, 2, 3, 4, 6, 9)), random.choice((1, 2, 3, 4, 6))
    values = random.choice(
        [
            lambda: rng.integers(0, 2, (m, n)).astype(float),
            lambda: rng.integers(-3, 9, (m, n)).astype(float),
            lambda: rng.standard_normal((m, n)),
            lambda: np.tri(m, n),
            lambda: np.eye(n),
            lambda: np.zeros((m, n)),
            lambda: np.repeat(rng.standard_normal((m, 1)), n, axis=1),
        ]
    )()
    change = random.random()
    if change < 0.12:
        values = values * 10.0 ** random.choice((-300, -160, -20, -8, 8, 20, 150, 300))
    elif change < 0.2:
        values = values + 10.0 ** random.choice((3, 8, 12, 16))
    elif change < 0.26:
        values = values * 10.0 ** rng.uniform(-12, 12, (len(values), 1))
    elif change < 0.3:
        values.flat[random.randrange(values.size)] = random.choice((np.nan, np.inf, -np.inf, 1e308))
    return values


def channel(random: Random):
    """Rows of probabilities, some of them 0 or very small."""
    rng = np.random.default_rng(random.getrandbits(64))
    values = rng.random((random.randint(1, 5), random.randint(1, 5)))
    values = values ** random.choice((1, 3, 40))
    if random.random() < 0.3:
        values[values < 0.4] = 0
    with np.errstate(all="ignore"):
        values = values / values.sum(axis=1, keepdims=True)
    return np.nan_to_num(values) if random.random() < 0.9 else values


def encoded(random: Random, values, ending: str) -> bytes:
    """The bytes of a file that holds the matrix."""
    handle = io.BytesIO()
    if ending == ".npy":
        kind = random.choice((float, float, float, "f4", ">f8", "i8", "i1", "longdouble", "bool"))
        with np.errstate(all="ignore"):
            np.save(handle, values.astype(kind))
    elif ending == ".npz":
        if random.random() < 0.5:
            np.savez(handle, **{random.choice(("workload", "arr_0", "a\nb", "\x1b[31m")): values})
        else:
            form = random.choice(("csr", "csc", "coo", "dia", "bsr"))
            sparse.save_npz(handle, sparse.csr_array(values).asformat(form))
    elif ending == ".csv":
        header = random.random() < 0.3
        lines = [",".join(f"x{i}" for i in range(values.shape[1]))] if header else []
        lines += [",".join(map(repr, row)) for row in values.tolist()]
        handle.write(random.choice(("\n", "\n", "\r\n")).join(lines).encode())
    else:
        given = values if random.random() < 0.5 else sparse.coo_array(values)
        scipy_io.mmwrite(handle, given)
    return handle.getvalue()


def arrays_changed(random: Random, data: bytes) -> bytes:
    """An .npz whose arrays are renamed, lost, or of other entries, shapes and types."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = dict(file)
    for _ in range(random.randint(1, 2)):
        if not arrays:
            break
        name = random.choice(sorted(arrays))
        array = arrays[name]
        change = random.randrange(9)
        if change == 0:
            del arrays[name]
        elif change == 1:
            new = re.sub(r"\d", lambda found: str(int(found[0]) + 1), name)
            arrays[new if new != name else name + random.choice(("_0", "\n", "é"))] = arrays.pop(
                name
            )
        elif change == 2:
            arrays[name] = array.astype(str)
        elif change == 3:
            arrays[name] = array.reshape(-1)[: random.randint(0, 3)]
        elif change == 4 and array.dtype.kind in "iuf" and array.size:
            array = array.copy().astype(float)
            array.flat[random.randrange(array.size)] = random.choice(
                (0.7, -1, 1e9, 1e18, 1e200, np.nan, np.inf, 0)
            )
            arrays[name] = array
        elif change == 5 and array.dtype.kind in "iu" and array.size:
            array = array.copy()
            array.flat[random.randrange(array.size)] = random.choice((0, -1, 7, 10**9))
            arrays[name] = array
        elif change == 6:
            arrays[name] = array[None] if random.random() < 0.5 else np.array([[array]] * 2)
        elif change == 7:
            arrays[random.choice(("factor_0", "factor_2", "block_1", "weights", "free"))] = array
        elif array.dtype.kind == "U" and array.ndim == 0:
            arrays[name] = np.array(str(array).replace("1", random.choice(("2", "", "[", "null"))))
    handle = io.BytesIO()
    np.savez(handle, **arrays)
    return handle.getvalue()


def damaged(random: Random, data: bytes) -> bytes:
    """The bytes after one or two accidents."""
    if data[:2] == b"PK" and random.random() < 0.7:
        return arrays_changed(random, data)
    for _ in range(random.randint(1, 2)):
        at = random.randrange(len(data) + 1)
        length = random.choice((1, 1, 2, 8, 40))
        change = random.randrange(8)
        if change == 0:
            data = data[:at]
        elif change == 1:
            data = data[:at] + data[at + length :]
        elif change == 2:
            data = data[:at] + data[at : at + length] * 2 + data[at + length :]
        elif change == 3:
            data = data[:at] + random.randbytes(length) + data[at + length :]
        elif change == 4:
            found = list(NUMBER.finditer(data))
            if found:
                place = random.choice(found)
                new = random.choice((*EXTREME, *WRONG, "100000000", "4294967297")).encode()
                data = data[: place.start()] + new + data[place.end() :]
        elif change == 5:
            lines = data.split(b"\n")
            lines.pop(random.randrange(len(lines)))
            data = b"\n".join(lines)
        elif change == 6:
            lines = data.split(b"\n")
            i, j = (random.randrange(len(lines)) for _ in range(2))
            lines[i], lines[j] = lines[j], lines[i]
            data = b"\n".join(lines)
        else:
            words = (
                b"real",
                b"integer",
                b"pattern",
                b"complex",
                b"array",
                b"coordinate",
                b"vector",
            )
            words += (b"general", b"symmetric", b"skew-symmetric", b"hermitian", b",", b";", b"\0")
            data = data.replace(random.choice(words), random.choice(words), 1)
    return data
