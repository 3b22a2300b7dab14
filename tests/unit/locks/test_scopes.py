"""Which leases exclude each other, and what a statement's condition pins."""

from __future__ import annotations

import pytest

from rowlock.locks.lease import TABLE, Scope, overlap, scopes_of
from rowlock.protocol.predicates import And, Column, In, IsNull, Not, Or, Predicate, Unknown, compare


def pins(**values: str) -> Scope:
    return frozenset(values.items())


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (TABLE, TABLE, True),
        (TABLE, pins(region="EU"), True),
        (pins(region="EU"), pins(region="EU"), True),
        (pins(region="EU"), pins(region="US"), False),
        (pins(region="EU"), pins(day="1"), True),
        (pins(region="EU", day="1"), pins(region="EU", day="2"), False),
        (pins(region="EU", day="1"), pins(region="EU"), True),
    ],
)
def test_scopes_exclude_each_other_unless_a_column_tells_them_apart(a: Scope, b: Scope, both: bool) -> None:
    assert overlap(a, b) == overlap(b, a) == both


def eq(column: str, value: object) -> Predicate:
    return compare("=", (column,), value)


@pytest.mark.parametrize(
    ("predicate", "scopes"),
    [
        (None, {TABLE}),
        (Unknown(), {TABLE}),
        (eq("v", 1), {TABLE}),
        (compare("<", ("p",), 1), {TABLE}),
        (eq("p", 1), {pins(p="=1")}),
        (And((eq("p", 1), eq("v", 2), Unknown())), {pins(p="=1")}),
        (And((eq("p", 1), eq("q", "x"))), {pins(p="=1", q="=x")}),
        (And((eq("p", 1), eq("p", 2))), set()),
        (In(Column(("p",)), (1, 2)), {pins(p="=1"), pins(p="=2")}),
        (Or((eq("p", 1), IsNull(Column(("p",))))), {pins(p="=1"), pins(p="null")}),
        (Or((eq("p", 1), eq("v", 1))), {TABLE}),
        (Or(()), set()),
        (eq("p", None), set()),
        (compare("<=>", ("p",), None), {pins(p="null")}),
        (And((In(Column(("p",)), (1, 2)), In(Column(("q",)), ("x", "y")))), {pins(p=p, q=q) for p in ("=1", "=2") for q in ("=x", "=y")}),
        (Not(Or((compare("!=", ("p",), 1), Unknown()))), {pins(p="=1")}),
        (In(Column(("p",)), tuple(range(65))), {TABLE}),
        (Or(tuple(eq("p", n) for n in range(65))), {TABLE}),
    ],
)
def test_what_a_condition_pins(predicate: Predicate | None, scopes: set[Scope]) -> None:
    assert scopes_of([predicate], ("p", "q")) == scopes


def test_several_statements_take_all_of_their_scopes() -> None:
    assert scopes_of([eq("p", 1), eq("p", 2)], ("p",)) == {pins(p="=1"), pins(p="=2")}
    assert scopes_of([eq("p", 1), None], ("p",)) == {TABLE}


def test_a_key_is_pinned_by_its_bucket() -> None:
    one, other = (scopes_of([eq("k", k)], (), "k") for k in ("a", "b"))
    assert [c for s in one | other for c, _ in s] == ["k/16", "k/16"] and one != other
    both = scopes_of([And((eq("p", 1), eq("k", "a")))], ("p",), "k")
    assert {c for s in both for c, _ in s} == {"p", "k/16"}
    assert overlap(next(iter(both)), next(iter(one))) and not overlap(next(iter(both)), next(iter(other)))
