"""The forms of strategy files that verification knows: a new one gets its row here.

A file names its form, unless it is a matrix. What a form is follows from the definitions in
`docs/guides/verification.md`, and from nothing else.
"""

from __future__ import annotations

from typing import Any

from pmldesign.verifier import balls, rounding
from pmldesign.verifier.forms import written
from pmldesign.verifier.forms.form import (
    COUNTS,
    MATRIX,
    POSITIVE,
    SETS,
    SIZES,
    Claims,
    Domain,
    Form,
    Method,
    along,
    in_balls,
    of_blocks,
    of_epochs,
    of_factors,
    of_sizes,
)
from pmldesign.verifier.forms.joint_tables import WEAKER_WEIGHTS, check_joint
from pmldesign.verifier.forms.joint_tables import lower_bound as joint_bound
from pmldesign.verifier.forms.marginals import check_marginals, tells_marginals
from pmldesign.verifier.forms.marginals import lower_bound as marginals_bound
from pmldesign.verifier.forms.products import check_beside_table, check_product
from pmldesign.verifier.forms.region_tables import WEAKER_PAIRS, check_regions
from pmldesign.verifier.forms.region_tables import lower_bound as region_tables_bound
from pmldesign.verifier.forms.tables import WEAKER_BLOCKS, check_tables, lower_of_weights
from pmldesign.verifier.forms.trees import root_of
from pmldesign.verifier.forms.unions import check_blocks, check_identity, check_product_basis
from pmldesign.verifier.streams.epochs import check_several
from pmldesign.verifier.streams.running_sums import (
    check_beside_total,
    check_intervals,
    check_stream,
    is_exact,
    is_plain,
    lower_bound_beside_total,
)
from pmldesign.verifier.streams.running_sums import lower_bound as stream_bound

NODES = {"poles": POSITIVE, "weights_of_poles": POSITIVE}
NUMBERS = Domain(0.0, axes=(2,))
SUMS = {"rates": POSITIVE, "query_weights": POSITIVE, "step_weights": POSITIVE}
MARGINS = {"counted": Domain(0, whole=True, axes=(1, 2)), "sizes": SIZES}


def _stream_bound(claims: Claims) -> Any:
    arrays, p = claims.arrays, float(claims.header["p"])
    if claims.header["neighbours"] == "replace" and "w" in arrays:
        return lower_bound_beside_total(arrays, p)
    if arrays["dual_w"].ndim > 1 or claims.header["neighbours"] != "add-remove":
        return None
    return stream_bound(arrays, p)


def _regions_bound(claims: Claims) -> Any:
    asked, replace = claims.queries.region_tables, claims.header["neighbours"] == "replace"
    if asked is None:
        return None
    return region_tables_bound(claims.header, claims.arrays, asked, root_of(asked.parents, replace))


def _tells_regions(claims: Claims) -> bool:
    """Whether structure determines all claims: with ordinal attributes, replace has only bounds."""
    exact = claims.large or claims.plain or "ordered" not in claims.arrays
    return claims.told and exact and _at_regions(claims, claims.arrays["sizes"].size)


def _coordinates_bound(claims: Claims) -> Any:
    if "ordered" in claims.arrays:
        return lower_of_weights(*claims[:3])
    return marginals_bound(*claims[:3]) if claims.queries.plain else None


def _at_regions(claims: Claims, attributes: int) -> bool:
    """Whether the queries are tables at regions, or only counts if only these are measured."""
    asked = claims.queries.region_tables
    return asked is not None and bool(asked.sizes) == bool(attributes)


def _is_product(claims: Claims) -> bool:
    """Whether queries and strategy are one product without weights, under add-remove."""
    arrays, single = claims.arrays, claims.queries.factors() is not None
    return claims.plain and "weights" not in arrays and single


def _is_beside_total(claims: Claims) -> bool:
    """Whether Gaussian noise is on running sums with a public last sum."""
    replaced = claims.header["neighbours"] == "replace" and (claims.large or not claims.pml)
    return replaced and claims.gaussian and is_plain(claims.arrays)


SEVERAL = Method(lambda c: c.large and c.plain and c.gaussian, check_several)
LARGE_TABLES = Method(lambda c: c.large and c.tables, check_tables)
FORMS: dict[str, Form] = {
    "matrix": Form(
        "a matrix and its reconstruction",
        {"strategy": MATRIX, "reconstruction": MATRIX},
        along("strategy"),
        beside=(MARGINS,),
    ),
    "matrix and inverse": Form(
        "a matrix and its inverse",
        {"strategy": MATRIX, "right_inverse": MATRIX},
        along("strategy"),
        beside=(MARGINS,),
    ),
    "epochs": Form(
        "fixed epochs",
        {**NODES, **SUMS, "epochs": SIZES, "epoch_weights": Domain(axes=(3,))},
        of_epochs,
        written.epoch_rows,
        several=(SEVERAL,),
        lower=_stream_bound,
    ),
    "stream": Form(
        "a stream",
        {**NODES, **SUMS, "u": POSITIVE, "w": POSITIVE},
        along("w"),
        written.stream_rows,
        (
            Method(
                lambda c: c.plain and c.gaussian,
                check_stream,
                lambda arrays: balls.NAME if is_exact(arrays) else rounding.NAME,
            ),
            Method(_is_beside_total, check_beside_total),
        ),
        several=(SEVERAL,),
        lower=_stream_bound,
    ),
    "recurrence": Form(
        "a recurrence",
        {**SUMS, "diagonal": POSITIVE, "gains": NUMBERS, "decays": NUMBERS},
        along("diagonal"),
        written.recurrence_rows,
    ),
    "all ranges": Form(
        "all intervals",
        {**NODES, "w": POSITIVE},
        along("w"),
        written.stream_rows,
        (Method(lambda c: c.large and c.plain and c.gaussian, check_intervals),),
        lower=_stream_bound,
        unsaid=("max_std",),
    ),
    "toeplitz": Form(
        "a Toeplitz matrix",
        {**SUMS, "coefficients": Domain(0.0)},
        along("coefficients"),
        written.toeplitz_rows,
        (SEVERAL,),
        several=(SEVERAL,),
    ),
    "product": Form(
        "a product",
        {"factor_#": MATRIX},
        of_factors,
        written.product_rows,
        (
            Method(lambda c: c.beside, check_beside_table),
            Method(lambda c: c.large and c.tables and not _is_product(c), check_product_basis),
            Method(lambda c: _is_product(c) and c.exact, check_product),
        ),
        beside=({"weights": POSITIVE}, {**MARGINS, "place": COUNTS}),
    ),
    "regions": Form(
        "counts or tables at regions",
        {
            "parents": Domain(-1, whole=True),
            "sizes": SIZES,
            "tables": SETS,
            "node_weights": Domain(0.0, axes=(2,)),
        },
        lambda arrays: len(written.leaves(arrays)) * of_sizes(arrays),
        written.region_rows,
        (Method(_tells_regions, check_regions),),
        lower=_regions_bound,
        weaker=WEAKER_PAIRS,
        grouped=True,
        beside=({"ordered": COUNTS, "coordinates_#": MATRIX},),
    ),
    "rows": Form(
        "an identity with rows",
        {"diagonal": POSITIVE, "rows": MATRIX},
        along("diagonal"),
        written.identity_rows,
        (
            Method(
                lambda c: (
                    c.large
                    and (c.plain or not len(c.arrays["rows"]))
                    and c.queries.matrix is not None
                ),
                check_identity,
            ),
        ),
    ),
    "blocks": Form(
        "blocks",
        {
            "free": Domain(0, whole=True, axes=(0, 1)),
            "combinations": Domain(-1, whole=True, axes=tuple(range(1, 32))),
            "block_#": MATRIX,
            "basis_#": MATRIX,
        },
        of_blocks,
        written.block_rows,
        (Method(lambda c: c.large and c.plain and c.tables, check_blocks),),
    ),
    "table matrices": Form(
        "a matrix for each table",
        {"sizes": SIZES, "tables": SETS, "rows_#": MATRIX, "centred": COUNTS},
        of_sizes,
        written.matrix_rows,
        (Method(lambda c: c.large and bool(c.queries.joint), check_joint),),
        lower=lambda claims: joint_bound(*claims[:3]),
        weaker=WEAKER_WEIGHTS,
    ),
    "weighted tables": Form(
        "weighted tables",
        {"sizes": SIZES, "tables": SETS, "weights": POSITIVE},
        of_sizes,
        written.weighted_rows,
        (LARGE_TABLES,),
        beside=({"designed": COUNTS, "design_#": MATRIX},),
    ),
    "coordinates": Form(
        "independent coordinates",
        {"sizes": SIZES, "residuals": SETS, "precisions": POSITIVE},
        of_sizes,
        written.coordinate_rows,
        (Method(tells_marginals, check_marginals, in_balls), LARGE_TABLES),
        lower=_coordinates_bound,
        weaker=WEAKER_BLOCKS,
        beside=(MARGINS, {"ordered": COUNTS, "coordinates_#": MATRIX}),
    ),
}
"""By name."""
