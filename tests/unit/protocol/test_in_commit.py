"""In-commit timestamps go up from commit to commit, and the version that turns them on says so."""

from __future__ import annotations

from itertools import pairwise

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.protocol.actions import Metadata
from rowlock.protocol.commits import with_commit_timestamp, with_enablement
from rowlock.transaction.definition import creation
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import commit, stage

ON = {"delta.enableInCommitTimestamps": "true"}


def times(world: InMemory) -> list[int]:
    return [c.info.raw["inCommitTimestamp"] for c in world.state.log.commits(-1, world.state.refresh().version) if c.info]


def test_every_commit_has_a_later_one() -> None:
    world = InMemory()
    world.create(schema_string([("k", "long", True), ("v", "long", True)]), (), ON)
    for n in range(5):
        world.run(parse(f"APPEND ({n}, 0)"))
    creation.set_properties(world.state, {"delta.checkpointInterval": "20"})
    world.run(parse("UPDATE SET v = 1 WHERE k = 3"))
    found = times(world)
    assert len(found) == 8 and all(a < b for a, b in pairwise(found))


def test_a_lost_put_gets_a_time_of_its_own() -> None:
    world = InMemory()
    world.create(schema_string([("k", "long", True), ("v", "long", True)]), (), ON)
    loser = stage(world.table, parse("UPDATE SET v = v + 1"))
    for n in range(20):
        world.run(parse(f"APPEND ({n}, 0)"))
    commit(loser, parse("UPDATE SET v = v + 1"))
    found = times(world)
    assert found == sorted(set(found))


def test_a_winner_turns_them_on() -> None:
    world = InMemory()
    world.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {})
    loser = stage(world.table, parse("APPEND (1, 1)"))
    creation.set_properties(world.state, ON)
    commit(loser, parse("APPEND (1, 1)"))
    last = world.state.refresh()
    assert last.metadata.configuration["delta.inCommitTimestampEnablementVersion"] == "1"
    infos = [c.info.raw for c in world.state.log.commits(-1, last.version) if c.info]
    assert "inCommitTimestamp" not in infos[0] and infos[1]["inCommitTimestamp"] < infos[2]["inCommitTimestamp"]
    assert last.metadata.configuration["delta.inCommitTimestampEnablementTimestamp"] == str(infos[1]["inCommitTimestamp"])


def test_a_clock_that_stands_behind() -> None:
    assert with_commit_timestamp({"timestamp": 5}, ON, 100)["inCommitTimestamp"] == 101
    assert with_commit_timestamp({"timestamp": 5}, {}, 100) == {"timestamp": 5}
    on, off = (Metadata("id", "{}", (), c) for c in (ON, {}))
    assert with_enablement(off, off, 3, 7) == off and with_enablement(on, on, 3, 7) == on
    since = with_enablement(off, on, 3, 7)
    assert with_enablement(since, on, 9, 9) == since


def test_a_restore_keeps_the_version_that_turned_them_on_last() -> None:
    """I3: the enablement version and time that an old version had are not brought back beside later ones, nor where the head has none."""
    world = InMemory()
    world.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {})
    creation.set_properties(world.state, ON)  # version 1
    creation.set_properties(world.state, {"delta.enableInCommitTimestamps": "false"})
    world.run(parse("APPEND (1, 1)"))
    creation.set_properties(world.state, ON)  # version 4
    world.restore(1)
    names = ["delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"]
    before, after = (world.state.log.at(v).metadata.configuration for v in (4, 5))
    assert [after[n] for n in names] == [before[n] for n in names] and after[names[0]] == "4"
    on, old = Metadata("id", "{}", (), ON), Metadata("id", "{}", (), {**ON, names[0]: "1", names[1]: "7"})
    assert not set(names) & set(with_enablement(on, old, 9, 99).configuration), "the head has them since its beginning"
