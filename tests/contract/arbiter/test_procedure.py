"""The procedure step by step: layout, outcomes, what is asked when, and what either side finds of the other's half-done work."""

from __future__ import annotations

import re
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.arbiter.delta_side import Stopped
from contract.arbiter.world import TABLE, Faulty, World
from rowlock import clock
from rowlock.exceptions import ConcurrentWriteException, CorruptLog, InvalidInput
from rowlock.protocol.names import commit_key
from rowlock.storage import Committed, LocalStore, Lost, MemoryStore, NotFound, Unknown
from rowlock.storage.dynamodb import ArbitratedStore, EntryTable, arbitrated, create_table, settings
from rowlock.storage.dynamodb.entries import spellings

MakeWorld = Callable[..., World]
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"


class StillClock(clock.SystemClock):
    """A time to come: DynamoDB Local deletes within seconds what has expired."""

    def now_ms(self) -> int:
        return 4_000_000_000_987


def test_entries_are_as_deltas_are(world: MakeWorld, client: Any) -> None:
    w = world()
    with clock.use(StillClock()):
        assert w.ours().put_if_absent(commit_key(0), b"zero") == Committed()
    w.delta().write(1, b"one")
    ours, deltas = (client.get_item(TableName=TABLE, Key={"tablePath": {"S": w.table_path}, "fileName": {"S": f"{v:020d}.json"}})["Item"] for v in (0, 1))
    assert {k: list(v) for k, v in ours.items()} == {k: list(v) for k, v in deltas.items()}, "names and types"
    assert ours["tablePath"]["S"] == w.store.root.replace("s3://", "s3a://")
    assert ours["complete"] == {"S": "true"} and ours["expireTime"] == {"N": str(4_000_000_000 + 86_400)}, "whole seconds"
    form = rf"\.tmp/0{{19}}[01]\.json\.{UUID}"
    assert re.fullmatch(form, ours["tempPath"]["S"]) and re.fullmatch(form, deltas["tempPath"]["S"])
    with pytest.raises(Stopped):
        w.ours_stopped_before("copy").put_if_absent(commit_key(2), b"two")
    claimed = w.entry(2)
    assert claimed is not None and not claimed.complete and claimed.expire_time_s is None
    assert w.store.get(claimed.temp_key) == b"two"


@pytest.mark.parametrize(("root", "paths"), [
    ("s3://bucket/lake/sales", ("s3a://bucket/lake/sales", "s3://bucket/lake/sales")),
    ("s3a://bucket/lake//sales/", ("s3a://bucket/lake/sales", "s3://bucket/lake/sales")),
    ("s3://bucket/", ("s3a://bucket/", "s3://bucket/")),
    ("s3://user@bucket/a b%20ü", ("s3a://bucket/a b%20ü", "s3://bucket/a b%20ü")),
    ("/tmp/lake/", ("file:/tmp/lake",)),
    ("memory://table", ("memory://table/",)),
])  # fmt: skip
def test_tables_are_spelled_as_hadoop_does(root: str, paths: tuple[str, ...]) -> None:
    assert spellings(root) == paths
    assert spellings("s3://bucket/t", "s3") == ("s3://bucket/t",)


@pytest.mark.parametrize("scheme", ["s3a", "s3"])
def test_a_table_keeps_the_scheme_that_its_entries_have(world: MakeWorld, scheme: str) -> None:
    """We open s3://; the fleet may say s3a:// or s3://."""
    w = world(scheme=scheme)
    w.delta().write(0, b"zero")
    by_default = ArbitratedStore(w.store, EntryTable(w.client, TABLE))
    assert by_default.table_path == w.table_path
    with pytest.raises(Stopped):
        w.delta().write(1, b"one", stop_before="copy")
    assert by_default.get(commit_key(1)) == b"one"


def test_two_schemes_are_two_arbiters_and_refused(world: MakeWorld) -> None:
    w = world(scheme="s3")
    w.delta().write(0, b"zero")
    World(store=w.store, client=w.client, scheme="s3a").delta().write(1, b"one")
    undecided = ArbitratedStore(w.store, EntryTable(w.client, TABLE))
    with pytest.raises(InvalidInput, match=r"under two names .*DELTA_DYNAMO_SCHEME"):
        undecided.put_if_absent(commit_key(2), b"two")
    assert w.ours().put_if_absent(commit_key(2), b"two") == Committed(), "the user has said which"


def test_the_loser_leaves_nothing(world: MakeWorld) -> None:
    w = world()
    assert w.ours().put_if_absent(commit_key(0), b"first") == Committed()
    assert w.ours().put_if_absent(commit_key(0), b"second") == Lost()
    with pytest.raises(Stopped):
        w.delta().write(1, b"theirs", stop_before="copy")
    assert w.ours().put_if_absent(commit_key(1), b"ours") == Lost(), "claimed, though its file is not there"
    assert w.ours().get(commit_key(1)) == b"theirs"
    temporary = [m.key for m in w.store.list("_delta_log/.tmp")]
    assert len(temporary) == 1 and "001.json" in temporary[0], "only Delta's own, which it never deletes"


def test_of_many_one_wins(world: MakeWorld) -> None:
    """The store's put-if-absent is broken here (every caller wins): DynamoDB alone decides."""
    w = world(conditional_copy=False)
    barrier, won = threading.Barrier(6), []

    def put(i: int) -> None:
        store = w.ours()
        barrier.wait()
        won.extend((v, i) for v in range(5) if store.put_if_absent(commit_key(v), b"%d" % i) == Committed())

    threads = [threading.Thread(target=put, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(v for v, _ in won) == [0, 1, 2, 3, 4]
    assert w.commits() == {v: b"%d" % i for v, i in won}


def test_reading_asks_only_where_a_version_is_absent(world: MakeWorld) -> None:
    w = world()
    w.ours().put_if_absent(commit_key(0), b"zero")
    counted = Faulty(w.client)
    store = w.ours(client=counted)
    assert store.table_path == w.table_path and counted.calls == ["query", "query"], "once: under which scheme the table is known"
    counted.calls.clear()
    assert store.get(commit_key(0)) == b"zero" and store.head(commit_key(0)) == 4 and store.exists(commit_key(0))
    with pytest.raises(NotFound):
        store.get("_delta_log/_last_checkpoint")
    store.put("_delta_log/_last_checkpoint", b"{}")
    assert store.head("_delta_log/_last_checkpoint") == 2 and not list(store.list("part"))
    assert counted.calls == []
    for _ in range(2):
        with pytest.raises(NotFound):
            store.get(commit_key(1))
    assert counted.calls == ["get_item"] * 2, "one read of one row"
    list(store.list("_delta_log"))
    assert counted.calls[2:] == ["query"]


READS: dict[str, Callable[[ArbitratedStore], Any]] = {
    "get": lambda s: s.get(commit_key(1)),
    "get_range": lambda s: s.get_range(commit_key(1), 0, 3),
    "get_tagged": lambda s: s.get_tagged(commit_key(1))[0],
    "head": lambda s: b"one" if s.head(commit_key(1)) == 3 else b"",
    "exists": lambda s: b"one" if s.exists(commit_key(1)) else b"",
    "list": lambda s: b"one" if commit_key(1) in [m.key for m in s.list("_delta_log")] else b"",
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("writer", ["ours", "delta"])
def test_every_read_finishes_what_a_writer_left(world: MakeWorld, read: str, writer: str) -> None:
    w = world()
    w.ours().put_if_absent(commit_key(0), b"zero")
    with pytest.raises(Stopped):
        if writer == "ours":
            w.ours_stopped_before("copy").put_if_absent(commit_key(1), b"one")
        else:
            w.delta().write(1, b"one", stop_before="copy")
    assert 1 not in w.commits()
    assert READS[read](w.ours()) == b"one"
    entry = w.entry(1)
    assert w.commits()[1] == b"one" and entry is not None and entry.complete and entry.expire_time_s


@pytest.mark.parametrize("step", ["claim", "copy", "complete"])
@pytest.mark.parametrize("left_by", ["ours", "delta"])
@pytest.mark.parametrize("next_by", ["ours", "delta"])
def test_the_next_writer_finishes_what_one_left(world: MakeWorld, step: Any, left_by: str, next_by: str) -> None:
    w = world()
    w.delta().write(0, b"zero")
    with pytest.raises(Stopped):
        if left_by == "ours":
            w.ours_stopped_before(step).put_if_absent(commit_key(1), b"one")
        else:
            w.delta().write(1, b"one", stop_before=step)
    version = 1 if step == "claim" else 2  # before the claim nothing is decided
    if next_by == "ours":
        assert w.ours().put_if_absent(commit_key(version), b"next") == Committed()
    else:
        w.delta().write(version, b"next")
    assert w.commits() == ({0: b"zero", 1: b"next"} if step == "claim" else {0: b"zero", 1: b"one", 2: b"next"})
    assert all((e := w.entry(v)) and e.complete and e.expire_time_s for v in w.commits())


def test_a_gap_and_a_sleeper_are_refused(world: MakeWorld) -> None:
    """A writer that slept while the log was cleaned up: its version is free again, and the entry has expired."""
    w = world()
    for v in range(3):
        w.ours().put_if_absent(commit_key(v), b"%d" % v)
    with pytest.raises(ConcurrentWriteException, match="version 3 is not in the log"):
        w.ours().put_if_absent(commit_key(4), b"gap")
    for v in (0, 1):
        w.store.delete(commit_key(v))
        w.client.delete_item(TableName=TABLE, Key={"tablePath": {"S": w.table_path}, "fileName": {"S": f"{v:020d}.json"}})
    with pytest.raises(ConcurrentWriteException, match="Run the statement again"):
        w.ours().put_if_absent(commit_key(1), b"sleeper")
    assert w.commits() == {2: b"2"} and w.entry(1) is None and not list(w.store.list("_delta_log/.tmp"))
    with pytest.raises(OSError, match="version 0 is not there"):
        w.delta().write(1, b"sleeper")


def test_a_file_without_an_entry_is_lost(world: MakeWorld) -> None:
    """Entries expire; the file then decides by itself."""
    w = world()
    w.store.put(commit_key(0), b"old")
    assert w.ours().put_if_absent(commit_key(0), b"new") == Lost()
    assert w.entry(0) is None and w.ours().put_if_absent(commit_key(1), b"one") == Committed()


def test_entries_of_a_table_that_was_here_before(world: MakeWorld) -> None:
    w = world()
    w.ours().put_if_absent(commit_key(0), b"old table")
    w.store.delete(commit_key(0))
    with pytest.raises(InvalidInput, match="still has entries of an earlier table at"):
        w.ours().put_if_absent(commit_key(0), b"new table")
    with pytest.raises(OSError, match="old entries"):
        w.delta().write(0, b"new table")
    with pytest.raises(NotFound):
        w.ours().get(commit_key(0))
    assert w.ours().forget() == 1 and w.entry(0) is None
    assert w.ours().put_if_absent(commit_key(0), b"new table") == Committed()
    with pytest.raises(InvalidInput, match="the table still exists"):
        w.ours().forget()


def test_an_unfinished_entry_is_not_forgotten(world: MakeWorld) -> None:
    w = world()
    with pytest.raises(Stopped):
        w.ours_stopped_before("copy").put_if_absent(commit_key(0), b"zero")
    with pytest.raises(InvalidInput, match="may still be finished"):
        w.ours().forget()
    claimed = w.entry(0)
    assert claimed is not None and w.ours().get(commit_key(0)) == b"zero"
    assert not EntryTable(w.client, TABLE).forget(claimed), "it is complete now"


def test_an_entry_that_nobody_can_finish_is_forgotten(world: MakeWorld) -> None:
    """A table was deleted while a writer was at work, whose claim came after that."""
    w = world()
    w.ours().put_if_absent(commit_key(0), b"zero")
    with pytest.raises(Stopped):
        w.ours_stopped_before("copy").put_if_absent(commit_key(1), b"one")
    for meta in w.store.list(recursive=True):
        w.store.delete(meta.key)
    with pytest.raises(CorruptLog, match="run `rowlock arbiter forget`"):
        w.ours().get(commit_key(1))
    assert w.ours().forget() == 2 and w.entry(1) is None
    assert w.ours().put_if_absent(commit_key(0), b"new table") == Committed()


def test_an_unfinished_version_0_is_lost_and_then_finished(world: MakeWorld) -> None:
    w = world()
    with pytest.raises(Stopped):
        w.delta().write(0, b"theirs", stop_before="copy")
    assert w.ours().put_if_absent(commit_key(0), b"ours") == Lost()
    assert [m.key for m in w.ours().list("_delta_log")] == [commit_key(0)] and w.commits() == {0: b"theirs"}


def test_who_goes_past_the_arbiter_is_noticed(world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    """Between our claim and our copy another puts its file: readers read that one, so we have lost."""
    w = world()
    w.ours().put_if_absent(commit_key(0), b"zero")
    past = Faulty(w.client, lose=lambda name, arguments: w.store.put_if_absent(commit_key(1), b"past") and None if name == "put_item" else None)
    assert w.ours(client=past).put_if_absent(commit_key(1), b"ours") == Lost()
    assert w.commits()[1] == b"past" and "a writer that does not use it" in caplog.text
    entry = w.entry(1)
    assert entry is not None and entry.complete and w.store.get(entry.temp_key) == b"ours", "the evidence"
    assert w.ours().put_if_absent(commit_key(2), b"two") == Committed()


def test_a_commit_that_was_in_its_place_and_is_gone_is_not_put_again(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """I1: a reader is about to finish it when its writer does, the table is dropped and another made; the commit was put into that one's log."""
    w = world()
    w.ours().put_if_absent(commit_key(0), b"zero")
    with pytest.raises(Stopped):
        w.ours_stopped_before("copy").put_if_absent(commit_key(1), b"one")
    put_if_absent = w.store.put_if_absent

    def late(key: str, data: bytes) -> Any:
        monkeypatch.undo()
        assert w.ours().get(commit_key(1)) == b"one"
        outcome = put_if_absent(key, data)
        for meta in list(w.store.list(recursive=True)):
            w.store.delete(meta.key)
        assert w.ours().forget() == 2 and w.ours().put_if_absent(commit_key(0), b"new table") == Committed()
        return outcome

    monkeypatch.setattr(w.store, "put_if_absent", late)
    with pytest.raises(NotFound):
        w.ours().get(commit_key(1))
    assert w.commits() == {0: b"new table"} and w.entry(1) is None


def test_completing_touches_no_entry_of_another(world: MakeWorld) -> None:
    """A slow writer whose entry was deleted meanwhile, with its table."""
    w = world()
    w.delta().write(0, b"new table")
    entries, theirs = EntryTable(w.client, TABLE), w.entry(0)
    assert theirs is not None
    entries.complete(replace(theirs, temp_path=".tmp/old"), 5)
    entries.complete(replace(theirs, file_name=f"{1:020d}.json"), 5)
    assert w.entry(0) == theirs and w.entry(1) is None


def test_bytes_that_are_gone_are_damage(world: MakeWorld) -> None:
    w = world()
    with pytest.raises(Stopped):
        w.delta().write(0, b"zero", stop_before="copy")
    entry = w.entry(0)
    assert entry is not None
    w.store.delete(entry.temp_key)
    with pytest.raises(CorruptLog, match="whose bytes are gone"):
        w.ours().get(commit_key(0))


def test_other_keys_pass_through(world: MakeWorld) -> None:
    counted = Faulty(world().client)
    store = world().ours(client=counted)
    for key in (
        "part-0.parquet",
        "_delta_log/00000000000000000001.checkpoint.parquet",
        "_delta_log/x/00000000000000000001.json",
        "x/_delta_log/00000000000000000001.json",
    ):
        assert (store.put_if_absent(key, b"1"), store.put_if_absent(key, b"2")) == (Committed(), Lost())
    data, tag = store.get_tagged("part-0.parquet")
    assert data == b"1" and store.replace_if("part-0.parquet", b"3", tag) == Committed()
    store.delete("part-0.parquet")
    assert store.head("part-0.parquet") is None and counted.calls == []


def test_on_a_local_folder(world: MakeWorld, tmp_path: Path) -> None:
    w = world(store=LocalStore(tmp_path / "table"))
    w.table_path = f"file:{tmp_path}/table"
    assert w.ours().put_if_absent(commit_key(0), b"zero") == Committed()
    w.delta().write(1, b"one")
    assert w.ours().put_if_absent(commit_key(2), b"two") == Committed()
    assert w.commits() == {0: b"zero", 1: b"one", 2: b"two"}


# ---- replies that are lost -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("times", [1, 2, 99])
def test_a_claim_whose_reply_is_lost(world: MakeWorld, moment: str, times: int) -> None:
    """I2: what landed is ours, by its tempPath; what may have landed is Unknown, and settled by reading the version."""
    w, left = world(), [times]

    def lose(name: str, arguments: Any) -> str | None:
        if name == "put_item" and arguments["Item"]["complete"]["S"] == "false" and left[0]:
            left[0] -= 1
            return moment
        return None

    outcome = w.ours(client=Faulty(w.client, lose=lose)).put_if_absent(commit_key(0), b"zero")
    if times == 99 and moment == "before":
        assert isinstance(outcome, Unknown) and w.entry(0) is None
        with pytest.raises(NotFound):
            w.ours().get(commit_key(0))
        assert w.ours().put_if_absent(commit_key(0), b"zero") == Committed()
    else:
        assert outcome == Committed(), "the second put finds our own entry"
    assert w.commits() == {0: b"zero"}


def test_a_claim_that_landed_though_nothing_is_heard_any_more(world: MakeWorld) -> None:
    w = world()
    deaf = Faulty(w.client, lose=lambda name, arguments: "after" if name == "put_item" else None)
    first = True

    def lose(name: str, arguments: Any) -> str | None:
        nonlocal first
        if name != "put_item":
            return None
        first, was = False, first
        return "after" if was else "before"

    outcome = w.ours(client=Faulty(w.client, lose=lose)).put_if_absent(commit_key(0), b"zero")
    assert isinstance(outcome, Unknown), "it may have landed (it has), and nobody can say so"
    assert w.ours().get(commit_key(0)) == b"zero", "the next look finds and finishes it"
    assert w.ours(client=deaf).put_if_absent(commit_key(1), b"one") == Committed(), "also the completion's reply may be lost"


def test_denied_after_a_lost_reply_is_not_a_failure(world: MakeWorld) -> None:
    """The first request was served, the token expired before the second: that is Unknown, not an error."""
    from botocore.exceptions import ClientError

    w, puts = world(), []

    def lose(name: str, arguments: Any) -> str | None:
        if name == "put_item":
            puts.append(1)
            if len(puts) > 1:
                raise ClientError({"Error": {"Code": "ExpiredTokenException", "Message": "secret"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "PutItem")
            return "after"
        return None

    outcome = w.ours(client=Faulty(w.client, lose=lose)).put_if_absent(commit_key(0), b"zero")
    assert isinstance(outcome, Unknown) and "ExpiredToken" in outcome.reason and "secret" not in outcome.reason
    assert w.ours().get(commit_key(0)) == b"zero"


def test_a_copy_that_fails_is_unknown_and_finished_later(world: MakeWorld) -> None:
    store = MemoryStore(f"s3://bucket/{uuid.uuid4()}", faults=lambda moment, key, data: Unknown("503") if moment == "before" and key == commit_key(0) else None)
    w = world(store=store)
    assert isinstance(w.ours().put_if_absent(commit_key(0), b"zero"), Unknown)
    store.faults = None
    assert w.ours().get(commit_key(0)) == b"zero"


# ---- options ---------------------------------------------------------------------------------------------------------


def test_options(dynamodb: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(f"s3://bucket/{uuid.uuid4()}")
    options = {k.lower(): v for k, v in dynamodb.storage_options.items()} | {"aws_s3_locking_provider": "dynamodb"}
    made = arbitrated(store, options)
    assert isinstance(made, ArbitratedStore) and arbitrated(made, options) is made
    assert made.put_if_absent(commit_key(0), b"zero") == Committed()
    assert dynamodb.storage_options["AWS_SECRET_ACCESS_KEY"] not in repr(made) + repr(vars(made)) + repr(vars(made.entries))
    assert arbitrated(store) is store and arbitrated(store, {"AWS_S3_LOCKING_PROVIDER": "none"}) is store
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    assert isinstance(arbitrated(store, dynamodb.storage_options), ArbitratedStore)
    with pytest.raises(InvalidInput, match="allowed are dynamodb and none"):
        arbitrated(store, {"AWS_S3_LOCKING_PROVIDER": "zookeeper"})
    assert arbitrated(LocalStore("/lake/t"), dynamodb.storage_options).root == "/lake/t", "the environment's is for S3"
    assert not isinstance(arbitrated(LocalStore("/lake/t"), dynamodb.storage_options), ArbitratedStore)
    with pytest.raises(InvalidInput, match="number of seconds"):
        arbitrated(store, {"DELTA_DYNAMO_TTL_SECONDS": "a day"})
    missing = arbitrated(store, options | {"DELTA_DYNAMO_TABLE_NAME": "no_such_table"})
    with pytest.raises(InvalidInput, match=r"no DynamoDB table no_such_table.*rowlock arbiter create"):
        missing.put_if_absent(commit_key(1), b"one")


def test_keys_are_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of the options never goes with a token of the environment; what is for DynamoDB comes first."""
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(settings, "_client", lambda arguments, profile: seen.append(dict(arguments)))
    monkeypatch.setattr(settings, "_clients", {})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "environment")
    settings.client_of({"aws_access_key_id": "mine", "aws_secret_access_key": "mine", "aws_region": "eu-west-1", "aws_region_dynamodb": "us-west-2"})
    settings.client_of({"AWS_ACCESS_KEY_ID": "mine", "AWS_ACCESS_KEY_ID_DYNAMODB": "arbiters"})
    settings.client_of({"AWS_PROFILE": "mine", "AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_DYNAMODB": "http://one"})
    settings.client_of({})
    assert seen == [
        {"aws_access_key_id": "mine", "aws_secret_access_key": "mine", "region_name": "us-west-2"},
        {"aws_access_key_id": "arbiters", "region_name": "us-east-1"},
        {"endpoint_url": "http://one", "region_name": "us-east-1"},
        {"aws_access_key_id": "environment", "aws_secret_access_key": "environment", "aws_session_token": "environment", "region_name": "us-east-1"},
    ]


def test_no_boto3_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3.session", None)
    with pytest.raises(InvalidInput, match=r"pip install 'rowlock\[dynamodb\]'"):
        arbitrated(MemoryStore(), {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "AWS_REGION": "never-made-before"})


def test_the_table_is_made_on_request(client: Any) -> None:
    name = f"made_{uuid.uuid4().hex}"
    first, again = create_table(client=client, name=name), create_table(client=client, name=name)
    assert (first.created, first.expires, again.created, again.expires) == (True, True, False, True)
    described = client.describe_table(TableName=name)["Table"]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["AttributeName"] == "expireTime"
    other = f"other_{uuid.uuid4().hex}"
    client.create_table(
        TableName=other,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(InvalidInput, match="with the key"):
        create_table(client=client, name=other)
