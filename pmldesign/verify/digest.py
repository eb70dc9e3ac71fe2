"""The digest of a file: what tells whether anything in it was changed after it was written.

SHA-256 of the header as JSON with sorted keys, without the digest itself, and of the name, type,
shape and bytes of every array in the order of their names. It guards against damage and slips: who
changes a file on purpose can write another digest, but not make false numbers hold. A JSON object
has its digest under `sha256`, `object`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

KEY = "sha256"
"""Of the digest in a header."""
OBJECT = "object"
"""Of the digest of a whole JSON object, among its hashes."""


def digest_of_object(content: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON object with sorted keys, without the entry "object" of its hashes."""
    hashes = {key: value for key, value in content.get(KEY, {}).items() if key != OBJECT}
    text = json.dumps({**content, KEY: hashes}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """The digest of a header, whose own entry KEY does not count, and of its arrays."""
    rest = {key: value for key, value in header.items() if key != KEY}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    sha = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
