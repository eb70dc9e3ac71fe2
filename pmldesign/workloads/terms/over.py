r"""Workloads as terms over attributes of given sizes.

Cells are in the order of np.kron, so that an attribute of a b values is the same as neighbouring
attributes of a and b values. Attributes of two domains form components: with s the product of the
sizes up to an attribute, a component ends where both domains have the same s. The queries of a term
about attributes of a component in one domain are queries about all its attributes in the other.

A product whose first factor has several terms has as many, in the order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pmldesign.workloads.base import Workload
from pmldesign.workloads.ranges import CountsWorkload, asks_counts, asks_total
from pmldesign.workloads.terms.term import Group, Term
from pmldesign.workloads.terms.workload import TermsWorkload, factors_of
from pmldesign.workloads.weighting import without_scale

MOST_PRODUCTS = 1000
"""Most terms whose factors, one for each attribute of the domain, are looked at one by one."""

Component = tuple[Group, Group]
"""Attributes of one domain, and those of another that have the same cells."""


def as_terms(workload: Workload) -> TermsWorkload:
    """Any workload as terms: a product has one, queries without attributes are about one."""
    if isinstance(workload, TermsWorkload):
        return workload
    scale, factors = without_scale(workload.factors)
    queries: dict[Group, Workload] = {
        (i,): factor
        for i, factor in enumerate(factors)
        if factor.shape[1] == 1 or not asks_total(factor)
    }
    domain = [factor.shape[1] for factor in factors]
    return TermsWorkload(domain, [Term(scale, queries, workload.name)], name=workload.name)


def terms_over(workload: Workload, sizes: Sequence[int]) -> tuple[Term, ...] | None:
    """The terms of a workload over attributes of these sizes; None if it has no such terms.

    Every group is a single attribute if there are such terms.
    """
    return _terms_over(workload, tuple(sizes))


def crossed_over(workload: Workload, sizes: Sequence[int]) -> tuple[Term, ...] | None:
    """The same where every group is a single attribute; None if one has several."""
    terms = terms_over(workload, sizes)
    return terms if terms is not None and all(term.crossed for term in terms) else None


def products_over(workload: Workload, sizes: Sequence[int]) -> list[tuple[Workload, ...]] | None:
    """The factors of each term, one for each attribute of these sizes; the first has its weight.

    None if a term joins attributes, or for more than MOST_PRODUCTS terms.
    """
    terms = crossed_over(workload, sizes)
    if terms is None or len(terms) > MOST_PRODUCTS:
        return None
    return [factors_of(term, sizes) for term in terms]


@lru_cache(maxsize=4)
def _terms_over(workload: Workload, sizes: tuple[int, ...]) -> tuple[Term, ...] | None:
    asked = as_terms(workload)
    if math.prod(sizes) != asked.shape[1]:
        return None
    over = _Over(asked.domain, sizes)
    terms = over.terms(asked.terms)
    if terms is not None and all(term.crossed for term in terms):
        return terms
    expanded = tuple(part for term in asked.terms for part in _expanded(term, asked.domain))
    finer = over.terms(expanded) if len(expanded) > len(asked.terms) else None
    return finer if finer is not None and all(term.crossed for term in finer) else terms


def _expanded(term: Term, domain: Sequence[int]) -> Iterator[Term]:
    """The terms of a product whose first factor has several."""
    group, *others = term.queries or [()]
    first = term.queries.get(group)
    several = isinstance(first, TermsWorkload) and len(first.terms) > 1
    inner = terms_over(first, [domain[i] for i in group]) if first and several else None
    if inner is None:
        yield term
        return
    rest = {other: term.queries[other] for other in others}
    for part in inner:
        queries = {tuple(group[i] for i in g): asked for g, asked in part.queries.items()}
        yield Term(term.weight * part.weight, queries | rest, part.name)


class _Over:
    """Terms over one domain as terms over another with as many cells.

    Args:
        domain: the sizes of the attributes of the first.
        sizes: of those of the second.
    """

    def __init__(self, domain: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        self._domain, self._sizes = domain, sizes
        self._components = [] if domain == sizes else _components(domain, sizes)
        self._made: dict[tuple[Group, tuple[int, ...]], Workload] = {}
        self._kept: list[Workload] = []  # so that their ids stay theirs

    def terms(self, terms: Sequence[Term]) -> tuple[Term, ...] | None:
        """The terms over the second domain; None if they do not exist."""
        if self._domain == self._sizes:
            return tuple(terms)
        moved = [self._term(term) for term in terms]
        kept = tuple(term for term in moved if term is not None)
        return kept if len(kept) == len(moved) else None

    def _term(self, term: Term) -> Term | None:
        wide: dict[Group, Workload] = {}
        for group, queries in term.queries.items():
            kept = tuple(i for i in group if self._domain[i] > 1)
            if kept or not asks_counts(queries):
                wide[kept or group] = queries
        weight, moved = term.weight, dict[Group, Workload]()
        for old, new, inside in self._joined(wide):
            part = Term(1.0, {new: self._together(old, inside)})
            if [*inside] == [old]:
                part = self._split(part)
            weight, moved = weight * part.weight, {**moved, **part.queries}
        attributes = [i for group in moved for i in group]
        if attributes != sorted(set(attributes)):
            return None
        return Term(weight, moved, term.name)

    def _joined(
        self, queries: Mapping[Group, Workload]
    ) -> Iterator[tuple[Group, Group, dict[Group, Workload]]]:
        """Components that groups join: attributes of both domains, and the queries about them."""
        joined: list[tuple[set[int], set[int], dict[Group, Workload]]] = []
        for group, asked in queries.items():
            olds, news, inside = set(group), set[int](), {group: asked}
            for old, new in {self._component_of(i) for i in group}:
                olds.update(old)
                news.update(new)
            for other in [entry for entry in joined if entry[0] & olds]:
                joined.remove(other)
                olds, news, inside = olds | other[0], news | other[1], other[2] | inside
            joined.append((olds, news, inside))
        for olds, news, inside in joined:
            yield tuple(sorted(olds)), tuple(sorted(news)), inside

    def _component_of(self, attribute: int) -> Component:
        """The component of an attribute, of one with a single value the next one."""
        after = (entry for entry in self._components if entry[0][-1] >= attribute)
        return next(after, self._components[-1])

    def _together(self, old: Group, inside: Mapping[Group, Workload]) -> Workload:
        """Queries on all attributes of a component."""
        if [*inside] == [old]:
            return inside[old]
        key = (old, tuple(map(id, inside.values())))
        if key not in self._made:
            place = {i: k for k, i in enumerate(old)}
            sizes = [self._domain[i] for i in old]
            groups = {tuple(place[i] for i in group): q for group, q in inside.items()}
            term = Term(1.0, groups)
            counts = term.counts and len(term.attributes) == len(old)
            name = "*".join(queries.name for queries in inside.values())
            self._made[key] = (
                CountsWorkload(math.prod(sizes))
                if counts
                else TermsWorkload(sizes, [term], name=name)
            )
            self._kept += inside.values()
        return self._made[key]

    def _split(self, term: Term) -> Term:
        """A term of one group as one of smaller groups, where its queries are a product of such."""
        ((group, queries),) = term.queries.items()
        sizes = tuple(self._sizes[i] for i in group)
        if len(group) > 1 and asks_counts(queries):
            return Term(1.0, {(i,): self._counts(i) for i in group})
        if not isinstance(queries, TermsWorkload) or len(queries.terms) > 1:
            return term
        inner = _Over(queries.domain, sizes).terms(queries.terms)
        if inner is None:
            return term
        moved = {tuple(group[i] for i in g): q for g, q in inner[0].queries.items()}
        return Term(inner[0].weight, moved)

    def _counts(self, attribute: int) -> Workload:
        key = ((attribute,), ())
        if key not in self._made:
            self._made[key] = CountsWorkload(self._sizes[attribute])
        return self._made[key]


def _components(domain: Sequence[int], sizes: Sequence[int]) -> list[Component]:
    """The components of attributes with more than one value."""
    old, new = ([i for i, n in enumerate(listed) if n > 1] for listed in (domain, sizes))
    components = []
    while old:
        first, second = [old.pop(0)], [new.pop(0)]
        while (n := math.prod(domain[i] for i in first)) != (
            m := math.prod(sizes[i] for i in second)
        ):
            if n < m:
                first.append(old.pop(0))
            else:
                second.append(new.pop(0))
        components.append((tuple(first), tuple(second)))
    return components or [((0,), (0,))]


def attribute_queries(workload: Workload) -> tuple[Workload, ...]:
    """What a workload asks about each attribute, all of it together; the total if one sums over it.

    The workload itself if it has no attributes, or joins some.
    """
    if not isinstance(workload, TermsWorkload) or not workload.crossed or not workload.terms[1:]:
        return workload.factors
    if len(workload.domain) == 1:
        return (workload,)
    return tuple(workload.queries_on(i) for i in range(len(workload.domain)))
