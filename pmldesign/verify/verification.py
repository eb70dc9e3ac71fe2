"""A file, whatever it is: which checks it gets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.errors import FileError, PmldesignError, require_extra
from pmldesign.verify.queries import Queries
from pmldesign.verify.reading import is_state, read_archive, read_object
from pmldesign.verify.report import Checks, Header, Verification

STRATEGIES, CERTIFICATES, MANIFESTS = (1, 2), (1,), (2,)
"""Formats of the files of each kind."""
BITS = 192
"""Of ball arithmetic."""


def check_file(path: str | Path, queries: Any = None) -> Verification:
    """Check what a file claims.

    Args:
        path: a strategy file or measurements (.npz), the manifest of a release (.json) or its table
            (.csv, .parquet), the certificate of an envelope (.json), or the state of a stream.
        queries: A, shape (m, n), which a strategy is for, or its `Queries`; None if nobody knows
            it.

    Raises:
        FileError: missing, unreadable, or of another kind.
        InvalidInputError: python-flint is not installed.
    """
    require_extra("verification", "flint", "verify")
    from flint import ctx

    from pmldesign.verify.measurements import check_measurements
    from pmldesign.verify.strategies import check_strategy
    from pmldesign.verify.streams.state import check_state

    run: Callable[[], str]
    path, checks = manifest_of(Path(path)), Checks()
    if is_state(path):
        kind, run = "state of a stream", partial(check_state, path, checks)
    elif path.suffix.lower() == ".json":
        kind, run = _of_object(path, read_object(path), checks)
    else:
        header, arrays = read_archive(path)
        _require_format(path, header, STRATEGIES)
        asked = queries if isinstance(queries, Queries | None) else Queries(np.asarray(queries))
        kind = "measurements" if "manifest" in header else "strategy"
        check = check_measurements if "manifest" in header else check_strategy
        run = partial(check, header, arrays, asked, checks)
    arithmetic = "none"
    with ctx.workprec(BITS):
        try:
            arithmetic = run()
        except (PmldesignError, MemoryError):
            raise
        except Exception as error:  # a claim may be anything
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            checks.state("contents", False, f"cannot be computed with ({reason})")
    return Verification(path.name, kind, arithmetic, tuple(checks.rows))


def manifest_of(path: Path) -> Path:
    """The manifest beside a published table; any other path as it is.

    Raises:
        FileError: there is none.
    """
    from pmldesign.verify.manifests import MANIFEST, TABLES

    endings = [ending for part in TABLES.values() for ending in part]
    ending = max((e for e in endings if path.name.endswith(e)), key=len, default=None)
    if ending is None:
        return path
    manifest = path.with_name(path.name.removesuffix(ending) + MANIFEST)
    if not manifest.is_file():
        raise FileError(f"{path.name} has no manifest {manifest.name} beside it")
    return manifest


def _of_object(path: Path, content: Header, checks: Checks) -> tuple[str, Callable[[], str]]:
    """The kind of a JSON file, and its checks."""
    from pmldesign.verify.envelopes import check_envelope
    from pmldesign.verify.manifests import check_manifest

    if "post_processing" in content and "dual" in content:
        _require_format(path, content, CERTIFICATES)
        return "envelope", partial(check_envelope, content, checks)
    if "lattice" in content:
        _require_format(path, content, MANIFESTS)
        return "manifest", partial(check_manifest, content, path, checks)
    raise FileError(
        f"{path.name} is neither the manifest of a release nor the certificate of an envelope"
    )


def _require_format(path: Path, content: Header, formats: tuple[int, ...]) -> None:
    if content.get("format") not in formats:
        raise FileError(
            f"{path.name}: format {content.get('format')!r:.40} is none of {formats}; verify it "
            "with the version of pmldesign that wrote it"
        )
