"""Spark on S3: the table that Rowlock changes through s3a is the one that it commits to through its own client; keys are passed on and not shown."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.session.clouds import options_of_session, session_settings
from rowlock.engines.spark.session.settings import cloned_session
from rowlock.exceptions import InvalidInput, StorageError
from rowlock.storage.dynamodb import create_table
from rowlock.storage.open import open_store
from servers.dynamodb import DynamoDb
from servers.minio import ACCESS_KEY, SECRET_KEY, Minio

pytestmark = pytest.mark.spark
HERE = Path(__file__)


def on_s3(minio: Minio, *options: str, more: Mapping[str, str] | None = None) -> tuple[dict[str, object], str]:
    """What the steps found, and all that was said, in a process of its own: the connector's JARs would slow every other test's session."""
    path = os.pathsep.join([str(HERE.parents[2] / "src"), str(HERE.parents[1])])
    command = [sys.executable, str(HERE.with_name("on_s3.py")), f"{minio.fresh_root()}/my table", *options]
    done = subprocess.run(
        command,
        input=json.dumps({**minio.storage_options, **(more or {})}),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


@pytest.mark.soak("25 s, of which most is a session with the connector; local stores and S3's contract are asked elsewhere", ci=True)
def test_the_first_statements_on_s3(minio: Minio) -> None:
    """A table is made, written and merged into; the folder's name has a space."""
    found, said = on_s3(minio, "--short")
    assert found == {"is there": True, "append": 1, "merge": 4, "count": 1005}
    assert minio.storage_options["AWS_SECRET_ACCESS_KEY"] not in said


@pytest.mark.soak("a minute: every kind of statement and a quarter of a million rows; the first statements stay")
def test_a_table_on_s3(minio: Minio) -> None:
    found, said = on_s3(minio)
    assert found == {
        "is there": True,
        "append": 1,
        "merge": 4,
        "in the transaction": 7,
        "count": 251_008,
        "sum": 4_832_130,
        "by partition": {"a b": 495, "c%d": 495, "new": 15, "x": 3},
        "old": 1000,
        "history": ["UPDATE", "OPTIMIZE", "MERGE", "WRITE", "WRITE", "WRITE", "MERGE", "DELETE", "UPDATE", "WRITE", "CREATE TABLE"],
        "reads the table": True,
        "shows the secret": False,
    }
    assert minio.storage_options["AWS_SECRET_ACCESS_KEY"] not in said


@pytest.mark.soak("25 s, of which most is a session with the connector; what Rowlock's own client takes of the session is asked elsewhere", ci=True)
def test_keys_that_stand_in_the_sessions_settings_alone(minio: Minio, monkeypatch: pytest.MonkeyPatch) -> None:
    """`spark.hadoop.fs.s3a...` as a cluster's session has it: no storage option, no environment, by SQL and by path."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    found, said = on_s3(minio, "--session")
    assert found == {"sql": [[1000, 499_506]], "append": 1001}
    assert minio.storage_options["AWS_SECRET_ACCESS_KEY"] not in said


@pytest.mark.soak("30 s, of which most is a session with the connector; local tables under the arbiter are in test_multi_table", ci=True)
def test_transactions_over_several_tables(minio: Minio, dynamodb: DynamoDb) -> None:
    """With nothing but storage options, and the names that Spark and Rowlock have for one place."""
    more = {f"{name.removesuffix('_DYNAMODB')}_DYNAMODB": value for name, value in dynamodb.storage_options.items()}
    more |= {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "DELTA_DYNAMO_TABLE_NAME": "of_several"}
    create_table(more)
    found, _ = on_s3(minio, "--several", more=more)
    assert found == {"versions": [1, 1], "rows": [2, 9], "run": [2, 2], "after": [3, 2]}


@pytest.fixture
def s3a(spark: SparkSession) -> Iterator[Callable[[Mapping[str, str]], None]]:
    """Sets `fs.s3a...` of the session's Hadoop client, and takes it back."""
    conf, before = spark.sparkContext._jsc.hadoopConfiguration(), {}

    def change(settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            before.setdefault(name, conf.get(f"fs.s3a.{name}"))
            conf.set(f"fs.s3a.{name}", value)

    yield change
    for name, value in before.items():
        conf.unset(f"fs.s3a.{name}") if value is None else conf.set(f"fs.s3a.{name}", value)


def test_rowlocks_own_client_takes_the_sessions_keys(spark: SparkSession, minio: Minio, s3a, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="rowlock")
    s3a({"endpoint": minio.endpoint.removeprefix("http://"), "connection.ssl.enabled": "false", "path.style.access": "true"})
    s3a({"access.key": "of others", "secret.key": "of others", "bucket.tables.access.key": ACCESS_KEY, "bucket.tables.secret.key": SECRET_KEY})
    root = minio.fresh_root()
    DeltaTable.isDeltaTable(spark, root)
    rowlock.append(root, pa.table({"n": [1]}))
    assert rowlock.to_arrow(root).column("n").to_pylist() == [1]
    s3a({"bucket.tables.secret.key": "wrong-secret-key"})
    with pytest.raises(StorageError) as e:
        rowlock.append(root, pa.table({"n": [2]}))
    assert rowlock.append(root, pa.table({"n": [3]}), storage_options=minio.storage_options).version == 1, "an argument comes first"
    assert [s for s in (SECRET_KEY, "wrong-secret-key") if s in f"{e.value} {caplog.text}"] == []


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"endpoint": "s3.eu-west-1.amazonaws.com"}, {"region": "eu-west-1"}),
        ({"endpoint": "s3.eu-west-1.amazonaws.com", "endpoint.region": "eu-west-2"}, {"region": "eu-west-2"}),
        (
            {"endpoint": "oss.example:90", "session.token": "t"},
            {"endpoint": "https://b.oss.example:90", "allow_http": "false", "virtual_hosted_style_request": "true", "session_token": "t"},
        ),
        ({"endpoint": "http://10.0.0.1:9000"}, {"endpoint": "http://10.0.0.1:9000", "allow_http": "true"}),
        ({"endpoint": "oss.example", "path.style.access": "true"}, {"endpoint": "https://oss.example", "allow_http": "false"}),
        ({"aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", "session.token": "t"}, {}),
        ({"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}, {"skip_signature": "true"}),
        ({"aws.credentials.provider": "com.example.OfTheHouse"}, None),
    ],
)
def test_settings_of_hadoops_client_mean_the_same_to_rowlocks(spark: SparkSession, s3a, settings: dict[str, str], options: dict[str, str] | None) -> None:
    keys = {"access_key_id": "k", "secret_access_key": "s"}
    s3a({"access.key": "k", "secret.key": "s", **settings})
    assert options_of_session("b") == ({} if options is None else options if "skip_signature" in options else keys | options)


def test_a_session_without_the_connector_is_told_what_to_add(spark, minio: Minio) -> None:
    root = minio.fresh_root()
    table = DeltaTable.create(spark).location(root, storage_options=minio.storage_options).addColumn("id", "BIGINT").execute()
    with pytest.raises(InvalidInput, match=r"rowlock\.spark\(stores=\['s3'\]\), or with spark\.jars\.packages=org\.apache\.hadoop:hadoop-aws:\d") as e:
        table.toDF()
    assert minio.storage_options["AWS_SECRET_ACCESS_KEY"] not in str(e.value)


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("s3://b/t", {"AWS_ACCESS_KEY_ID": "AKIA-hunter2", "AWS_SECRET_ACCESS_KEY": "key-hunter2", "AWS_SESSION_TOKEN": "token-hunter2"}),
        ("abfss://c@lake.dfs.core.windows.net/t", {"AZURE_STORAGE_ACCOUNT_KEY": "aHVudGVyMg=="}),
        ("abfss://c@lake.dfs.core.windows.net/t", {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=hunter2"}),
        ("abfss://c@lake.dfs.core.windows.net/t", {"AZURE_STORAGE_CLIENT_ID": "me", "AZURE_STORAGE_CLIENT_SECRET": "hunter2"}),
    ],
)
def test_sparks_event_log_masks_what_reaches_a_session(spark, uri: str, options: dict[str, str]) -> None:
    """The session on which a table's files are read has the secrets under names that its redaction knows; the user's session has none of them."""
    store = open_store(uri, options)
    given = session_settings(store)
    secrets = [v for name, v in options.items() if name != "AZURE_STORAGE_CLIENT_ID"]
    assert all(secret in given.values() for secret in secrets)
    conf = cloned_session(spark, given, f"{uri} {sorted(options)}").sessionState().conf()
    shown = str(conf.redactOptions(conf.getAllConfs()))
    assert [s for s in secrets if s in shown] == [] and "redacted" in shown
    assert [s for s in secrets if s in str(spark._jsparkSession.sessionState().conf().getAllConfs())] == []
