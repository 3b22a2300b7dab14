"""Storage options: the names people know, what comes before what, and that no secret is ever shown."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pyarrow as pa
import pytest

import rowlock
from rowlock.exceptions import InvalidInput
from rowlock.storage import NotFound, StorageError, open_store
from rowlock.storage.options import parse, settings_for
from rowlock.transaction.state.shared import state_of

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.mark.parametrize(
    ("uri", "kind", "bucket", "prefix", "root"),
    [
        ("s3://b/a/t", "s3", "b", "a/t", "s3://b/a/t"),
        ("s3a://b/a/t/", "s3", "b", "a/t", "s3://b/a/t"),
        ("S3://b/a%20b c", "s3", "b", "a%20b c", "s3://b/a%20b c"),
        ("gcs://b/t", "gcs", "b", "t", "gs://b/t"),
        ("az://c/t", "azure", "c", "t", "az://c/t"),
        ("abfs://c@acc.dfs.core.windows.net/t", "azure", "c", "t", "abfss://c@acc.dfs.core.windows.net/t"),
    ],
)
def test_addresses(uri: str, kind: str, bucket: str, prefix: str, root: str) -> None:
    found = parse(uri)
    assert (found.kind, found.bucket, found.prefix, found.root) == (kind, bucket, prefix, root)


@pytest.mark.parametrize("uri", ["s3://b", "s3://b/", "s3://b/a//t", "s3://b/../t", "gs:///t"])
def test_addresses_that_name_no_folder(uri: str) -> None:
    with pytest.raises(InvalidInput):
        parse(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:{}@bucket/t",
        "s3a://{}@bucket/t",
        "abfss://key:{}@account.dfs.core.windows.net/t",
        "abfss://container@account.dfs.core.windows.net/t?sv=2024&sig={}",
        "az://container/t?sig={}",
        "s3://bucket/t?X-Amz-Security-Token={}",
        "https://account.blob.core.windows.net/c/t?sig={}",
        "postgresql://me:{}@db/names",
        "jdbc:postgresql://db/names?password={}",
    ],
)
@pytest.mark.parametrize("secret", [SECRET, "hunter2"])
def test_a_secret_in_an_address_is_refused_and_not_repeated(uri: str, secret: str) -> None:
    """Whoever opens it, and however: its text would be the table's name in every log."""
    if uri.startswith("s3a") and "/" in secret:
        pytest.skip("what stands before a slash is a bucket's name")
    for opens in (open_store, rowlock.to_arrow, lambda place: rowlock.append(place, pa.table({"id": [1]}))):
        with pytest.raises(InvalidInput) as e:
            opens(uri.format(secret))
        assert all(part not in str(e.value) for part in secret.split("/"))


def test_other_parts_of_an_address_are_a_folders_name() -> None:
    assert parse("s3://bucket/a?b=1/c@d:e").prefix == "a?b=1/c@d:e"


@pytest.mark.parametrize("case", [str.upper, str.lower])
def test_names_of_delta_rs_and_of_obstore_mean_the_same(case) -> None:
    long = {
        case(k): v
        for k, v in {
            "AWS_ENDPOINT_URL": "http://x",
            "AWS_REGION": "r",
            "AWS_ACCESS_KEY_ID": "k",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ALLOW_HTTP": "true",
        }.items()
    }
    short = {"endpoint": "http://x", "region": "r", "access_key_id": "k", "secret_access_key": SECRET, "allow_http": "true"}
    a, b = settings_for("s3", long), settings_for("s3", short)
    assert a.config == b.config == {"endpoint": "http://x", "region": "r", "access_key_id": "k", "secret_access_key": SECRET}
    assert a.client == b.client == {"allow_http": True}
    assert settings_for("azure", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": SECRET}).config == {
        "account_name": "a",
        "account_key": SECRET,
    }


def test_the_argument_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "around")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "around-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "around-token")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://around")
    assert settings_for("s3").keys == ("around", "around-secret", "around-token")
    mine = settings_for("s3", {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": SECRET})
    assert mine.keys == ("mine", SECRET, None), "no session token of another's keys"
    assert mine.config["endpoint"] == "http://around"
    assert settings_for("s3", {"AWS_ENDPOINT_URL": "http://mine"}).config["endpoint"] == "http://mine"


def test_what_the_session_says_comes_between_the_argument_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of one place are never mixed with those of another, nor one's endpoint with the other's way of addressing it."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "ENDPOINT_URL", "REGION"):
        monkeypatch.setenv(f"AWS_{name}", "around")
    session = {"access_key_id": "k", "secret_access_key": SECRET, "endpoint": "http://b.x", "allow_http": "true", "virtual_hosted_style_request": "true"}
    alone = settings_for("s3", of_session=session)
    assert alone.keys == ("k", SECRET, None) and alone.client == {"allow_http": True} and alone.given == {}
    assert (alone.config["endpoint"], alone.config["region"]) == ("http://b.x", "around")
    keys = settings_for("s3", {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "s"}, of_session=session)
    assert keys.keys == ("mine", "s", None) and keys.config["endpoint"] == "http://b.x"
    endpoint = settings_for("s3", {"AWS_ENDPOINT_URL": "https://mine"}, of_session=session)
    assert endpoint.keys == ("k", SECRET, None) and endpoint.config["endpoint"] == "https://mine"
    assert endpoint.client == {} and "virtual_hosted_style_request" not in endpoint.config
    assert settings_for("s3", {"AWS_SKIP_SIGNATURE": "true"}, of_session=session).keys is None
    assert SECRET not in f"{alone!r} {alone.redacted(SECRET)}"


def test_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = d\naws_secret_access_key = ds\n[team]\naws_access_key_id = t\naws_secret_access_key = ts\naws_session_token = tt\n"
    )
    (tmp_path / "config").write_text("[default]\nregion = eu-north-1\n[profile team]\nregion = eu-west-1\n[profile role]\nrole_arn = arn:aws:iam::1:role/x\n")
    assert settings_for("s3").keys == ("d", "ds", None) and settings_for("s3").config["region"] == "eu-north-1"
    team = settings_for("s3", {"AWS_PROFILE": "team"})
    assert team.keys == ("t", "ts", "tt") and team.config["region"] == "eu-west-1" and team.profile is None
    assert settings_for("s3", {"AWS_PROFILE": "role"}).profile == "role", "boto3 assumes it"
    monkeypatch.setenv("AWS_PROFILE", "team")
    assert settings_for("s3").keys == ("t", "ts", "tt")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "around")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "around-secret")
    assert settings_for("s3").keys == ("around", "around-secret", None), "keys around come before a profile around"
    assert settings_for("s3", {"AWS_PROFILE": "team"}).keys == ("t", "ts", "tt"), "and after one that is asked for"
    with pytest.raises(InvalidInput, match="no profile 'none'"):
        settings_for("s3", {"AWS_PROFILE": "none"})


def test_options_of_others_are_let_be_and_unknown_ones_refused() -> None:
    open_store(
        "s3://b/t",
        {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "DELTA_DYNAMO_TABLE_NAME": "x", "AWS_ENDPOINT_URL_DYNAMODB": "http://x", "AZURE_STORAGE_ACCOUNT_NAME": "a"},
    )
    with pytest.raises(InvalidInput, match=r"'aws_acess_key_id' is not an option of s3; did you mean 'access_key_id'") as e:
        open_store("s3://b/t", {"AWS_ACESS_KEY_ID": SECRET})
    assert SECRET not in str(e.value)
    with pytest.raises(InvalidInput, match="conditional_put must be 'etag'"):
        open_store("s3://b/t", {"conditional_put": "dynamo"})


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("s3://b/t", {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": "token-" + SECRET}),
        (
            "gs://b/t",
            {
                "GOOGLE_SERVICE_ACCOUNT_KEY": '{"client_email": "", "private_key_id": "", "disable_oauth": true, "private_key": "'
                + SECRET
                + '", "gcs_base_url": "http://x"}'
            },
        ),
        ("az://b/t", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=" + SECRET}),
        ("az://b/t", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0LXNlY3JldC1zZWNyZXQ="}),
    ],
)
def test_no_secret_is_shown(uri: str, options: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = open_store(uri, options)
    shown = f"{store!r} {store.settings!r} {store.identity} {vars(store)} {state_of(store)!r} {store.settings.redacted(options)} {caplog.text}"
    for name, value in options.items():
        if name != "AZURE_STORAGE_ACCOUNT_NAME":
            assert value not in shown
    assert SECRET not in shown
    assert "sig=abc" not in store.settings.redacted("GET http://x/y?sv=1&sig=abc%2F1&se=2") and "***" in store.settings.redacted("?sig=abc")


def test_a_secret_is_in_no_error(minio) -> None:
    store = open_store(minio.fresh_root(), {**minio.storage_options, "AWS_SECRET_ACCESS_KEY": SECRET})
    for call in (lambda: store.get("a"), lambda: store.put("a", b""), lambda: store.put_if_absent("a", b""), lambda: list(store.list())):
        with pytest.raises(StorageError, match="access was denied") as e:
            call()
        assert not isinstance(e.value, NotFound) and SECRET not in str(e.value) and e.value.__context__ is None


def test_a_bucket_that_is_missing_is_no_empty_table(minio) -> None:
    store = open_store("s3://no-such-bucket/t", minio.storage_options)
    for call in (lambda: store.get("a"), lambda: store.put_if_absent("a", b""), lambda: list(store.list())):
        with pytest.raises(StorageError, match="'no-such-bucket' does not exist"):
            call()


def test_two_endpoints_are_two_tables() -> None:
    options = {"AWS_ENDPOINT_URL": "http://one", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": SECRET}
    one, same, other = open_store("s3://b/t", options), open_store("s3a://b/t/", options), open_store("s3://b/t", {**options, "AWS_ENDPOINT_URL": "http://two"})
    assert one.root == other.root
    first = state_of(one)
    assert state_of(same) is first and state_of(other) is not first


@pytest.mark.parametrize(("uri", "key"), [("az://container/table", "AZURE_STORAGE_ACCOUNT_KEY"), ("s3://bucket/table", "AWS_SECRET_ACCESS_KEY")])
def test_keys_that_were_put_right_in_the_environment_count_from_then_on(monkeypatch: pytest.MonkeyPatch, uri: str, key: str) -> None:
    """What is kept of a table has the client of the old keys."""
    for name, value in {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "id", key: "d3Jvbmc="}.items():
        monkeypatch.setenv(name, value)
    wrong = state_of(open_store(uri))
    assert state_of(open_store(uri)) is wrong
    monkeypatch.setenv(key, "cmlnaHQ=")
    assert state_of(open_store(uri)) is not wrong
