"""What a user chooses: arguments before properties before defaults, and refusal when it is set."""

from __future__ import annotations

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.exceptions import InvalidInput
from rowlock.protocol.properties import KNOBS
from rowlock.transaction.definition import creation
from rowlock.transaction.state.options import Options
from rowlock_simulation.memory.sql.script import Append
from rowlock_simulation.memory.statements import run

SCHEMA = schema_string([("k", "long", True)])


@pytest.mark.parametrize(
    ("argument", "properties", "level"),
    [
        (None, {}, "serializable"),
        (None, {"rowlock.isolation": "snapshot"}, "snapshot"),
        ("serializable", {"rowlock.isolation": "snapshot"}, "serializable"),
        # Delta's own property is the table's level where ours is not set
        (None, {"delta.isolationLevel": "Serializable"}, "serializable"),
        (None, {"delta.isolationLevel": "WriteSerializable"}, "write_serializable"),
        (None, {"delta.isolationLevel": "writeserializable"}, "write_serializable"),
        (None, {"delta.isolationLevel": "SnapshotIsolation"}, "snapshot"),
        (None, {"delta.isolationLevel": "WriteSerializable", "rowlock.isolation": "serializable"}, "serializable"),
        (None, {"delta.isolationLevel": "a level of tomorrow"}, "serializable"),
    ],
)
def test_isolation(argument: str | None, properties: dict[str, str], level: str) -> None:
    assert Options(isolation=argument).resolved(properties).isolation == level


def test_defaults() -> None:
    options = Options(lane=False).resolved({})
    assert (options.on_conflict, options.isolation, options.granularity, options.lane) == ("repair", "serializable", "row", False)


ARGUMENTS = {"rowlock.onConflict": "on_conflict", "rowlock.isolation": "isolation", "rowlock.granularity": "granularity", "rowlock.lock": "lock"}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in KNOBS.items() for v in values])
def test_values_that_are_carried_out(name: str, value: str) -> None:
    made = InMemory()
    made.create(SCHEMA, (), {name: value, "delta.enableRowTracking": "true"})
    creation.set_properties(made.state, {name: value})
    assert run(made.table, Append(((1,),)), Options(**{ARGUMENTS[name]: value})).version == 1
    assert run(made.table, Append(((1,),))).version == 2


@pytest.mark.parametrize(("name", "value"), [(n, "unheard of") for n in KNOBS])
def test_values_that_are_refused_when_they_are_set(name: str, value: str) -> None:
    made = InMemory()
    with pytest.raises(InvalidInput) as at_creation:
        made.create(SCHEMA, (), {name: value})
    made.create(SCHEMA, (), {})
    with pytest.raises(InvalidInput) as later:
        creation.set_properties(made.state, {name: value})
    with pytest.raises(InvalidInput) as argument:
        Options(**{ARGUMENTS[name]: value})
    for message in (str(at_creation.value), str(later.value), str(argument.value)):
        assert name in message and value in message and ", ".join(KNOBS[name]) in message
    assert made.state.refresh().version == 0


def test_group_commit_is_switched_by_the_table() -> None:
    with pytest.raises(InvalidInput, match=r"rowlock.groupCommit = 'maybe' is not possible: allowed are true, false"):
        InMemory().create(SCHEMA, (), {"rowlock.groupCommit": "maybe"})
    assert [Options().resolved(p).group_commit for p in ({}, {"rowlock.groupCommit": "true"}, {"rowlock.groupCommit": "false"})] == [True, True, False]


def test_a_value_that_another_writer_set_is_refused_when_it_would_count() -> None:
    with pytest.raises(InvalidInput, match="unheard of"):
        Options().resolved({"rowlock.onConflict": "unheard of"})
    assert Options(on_conflict="fail").resolved({"rowlock.onConflict": "unheard of"}).on_conflict == "fail"


@pytest.mark.parametrize(("level", "said"), [("serializable", "Serializable"), ("write_serializable", "WriteSerializable"), ("snapshot", "SnapshotIsolation")])
def test_the_commit_says_its_level_by_deltas_name(level: str, said: str) -> None:
    made = InMemory()
    made.create(SCHEMA, (), {})
    run(made.table, Append(((1,),)), Options(isolation=level))
    info = made.state.log.commits(0, 1)[0].info
    assert info is not None and info.raw["isolationLevel"] == said


TRACKED = {"delta.enableRowTracking": "true"}


def test_lockless_knows_rows_by_their_ids_and_takes_no_isolation_beside_it() -> None:
    bare, tracked = InMemory(), InMemory()
    with pytest.raises(InvalidInput, match="enableRowTracking"):
        bare.create(SCHEMA, (), {"rowlock.onConflict": "lockless"})
    bare.create(SCHEMA, (), {})
    with pytest.raises(InvalidInput, match="enableRowTracking"):
        creation.set_properties(bare.state, {"rowlock.onConflict": "lockless"})
    with pytest.raises(InvalidInput, match="enableRowTracking"):
        run(bare.table, Append(((1,),)), Options(on_conflict="lockless"))
    tracked.create(SCHEMA, (), TRACKED | {"rowlock.onConflict": "lockless"})
    with pytest.raises(InvalidInput, match=r"rowlock\.isolation"):
        creation.set_properties(tracked.state, {"rowlock.isolation": "snapshot"})
    with pytest.raises(InvalidInput, match="isolation"):
        Options(on_conflict="lockless", isolation="serializable")
    with pytest.raises(InvalidInput, match="isolation"):
        run(tracked.table, Append(((1,),)), Options(isolation="serializable"))
    with pytest.raises(InvalidInput, match="enableRowTracking"):
        creation.unset_properties(tracked.state, ["delta.enableRowTracking"])
    assert tracked.state.refresh().version == 0, "what is refused writes nothing"
    run(tracked.table, Append(((1,),)))
    assert run(tracked.table, Append(((1,),)), Options(on_conflict="repair", isolation="snapshot")).version == 2
