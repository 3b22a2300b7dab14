"""Gives Spark access to tables on object stores: the URI of the table's folder, the connector, and the credentials.  And gives the stores of
`storage/hadoop.py` the Hadoop client in the driver's JVM, with the settings of the process's Spark session.

The only place that knows how Spark spells a table's root, under which paths of the log and `_metadata.file_path` are
compared.  Credentials go into the settings of Rowlock's cloned sessions, for one bucket each, never into the user's
session, and under names that Spark redacts in its event log.
Only file systems of Hadoop whose rename is atomic and refuses a target that is there may hold tables: a commit is such a rename (I1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from rowlock import threads
from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.session.compiled import Classes
from rowlock.engines.spark.session.settings import session_of_process
from rowlock.exceptions import InvalidInput
from rowlock.protocol.paths import scheme_of
from rowlock.storage.hadoop import FileInfo, HadoopFiles
from rowlock.storage.options import SCHEMES, Address, Settings, parse, settings_for
from rowlock.storage.store import ObjectStore

_AZURE_HOST = "dfs.core.windows.net"
_CLASSES = {
    "s3": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "gcs": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "azure": "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
}
_PACKAGES = {
    "s3": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "gcs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
    "azure": "org.apache.hadoop:hadoop-azure:{hadoop}",
}
_SDK = {"3.5.0": "2.35.4"}
"""From Hadoop's version to the version of the AWS SDK whose parts below are enough for it; tried out."""
_SDK_PARTS = ("s3", "s3-transfer-manager", "apache-client", "sts")
_STATIC = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"

_AWS_HOST = re.compile(r"(?:https?://)?s3(?:[.-]([a-z]{2}-[a-z0-9-]+))?\.amazonaws\.com/?")
_UNNAMED_HOST = re.compile(r"https?://(?:localhost|[\d.]+|\[.*\])(?:[:/].*)?")

_seen: dict[str, str] = {}
_lock = threads.module_lock()


def connectors(stores: Sequence[str]) -> dict[str, str]:
    """The settings of a new session that give the installed Spark connectors to these stores: 's3', 'gs', 'az'.  Raises InvalidInput.

    Where that is known to be enough, S3's connector comes with 18 MB of the AWS SDK instead of the whole 650 MB.
    """
    import pyspark

    kinds = {"s3": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "azure": "azure"}
    if unknown := [s for s in stores if s not in kinds]:
        raise InvalidInput(f"stores are 's3', 'gs' and 'az', not {unknown[0]!r}")
    found = [m[1] for p in (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar") if (m := re.search(r"api-(\d[\d.]*)\.jar$", p.name))]
    hadoop = found[0] if found else "3.4.1"
    wanted = [_PACKAGES[kinds[s]].format(hadoop=hadoop) for s in stores]
    if "s3" not in stores or hadoop not in _SDK:
        return {"spark.jars.packages": ",".join(wanted)} if wanted else {}
    parts = [f"software.amazon.awssdk:{part}:{_SDK[hadoop]}" for part in _SDK_PARTS]
    return {"spark.jars.packages": ",".join([*wanted, *parts]), "spark.jars.excludes": "software.amazon.awssdk:bundle,commons-logging:commons-logging"}


def address_of(store: ObjectStore) -> Address | None:
    """The address of the store's folder on an object store; None on a disk, in memory or on a file system of Hadoop."""
    return parse(store.root) if scheme_of(store.root) in SCHEMES else None


def spark_root(store: ObjectStore) -> str:
    """The table's folder as Spark spells it: a local path, or a URI for its connectors.  Raises InvalidInput."""
    address = address_of(store)
    if address is None or address.kind == "gcs":
        return store.root
    if address.kind == "s3":
        return f"s3a://{address.bucket}/{address.prefix}"
    if address.account is not None:
        return store.root
    account = _settings(store).config.get("account_name")
    if account is None:
        text = "Spark must know the account: give AZURE_STORAGE_ACCOUNT_NAME, or a path such as abfss://container@account.dfs.core.windows.net/folder"
        raise InvalidInput(text, table=store.root)
    return f"abfss://{address.bucket}@{account}.{_AZURE_HOST}/{address.prefix}"


def _settings(store: ObjectStore) -> Settings:
    found = getattr(store, "settings", None)
    return found if isinstance(found, Settings) else settings_for(parse(store.root).kind)


def check_connector(spark: SparkSession, store: ObjectStore) -> None:
    """Raises InvalidInput, which names the package to add, where the session has no connector for the store."""
    address = address_of(store)
    if address is None:
        return
    jvm, conf = spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration()
    if conf.getClassByNameOrNull(_CLASSES[address.kind]) is not None:
        return
    assert jvm is not None
    package = _PACKAGES[address.kind].format(hadoop=jvm.org.apache.hadoop.util.VersionInfo.getVersion())
    short = {"s3": "s3", "gcs": "gs", "azure": "az"}[address.kind]
    text = f"This Spark session has no connector for {address.root.partition(':')[0]}: tables. Start one that has: rowlock.spark(stores=['{short}']), or with spark.jars.packages={package}"
    raise InvalidInput(text, table=store.root)


def session_settings(store: ObjectStore) -> dict[str, str]:
    """The Hadoop settings of a session that reads and writes the table.  Holds secrets: never to be logged or shown."""
    address = address_of(store)
    if address is None:
        return {}
    settings = _settings(store)
    out = {"s3": _s3, "gcs": _gcs, "azure": _azure}[address.kind](address, settings)
    out["spark.sql.redaction.options.regex"] = "(?i)url|key|secret|token|password|private"
    with _lock:
        first = _seen.setdefault(f"{address.kind} {address.bucket}", settings.fingerprint)
    if first != settings.fingerprint:  # Hadoop caches one client for each bucket, whatever its credentials
        out |= {f"fs.{scheme}.impl.disable.cache": "true" for scheme in ("s3a", "gs", "abfss")}
    return out


def _s3(address: Address, settings: Settings) -> dict[str, str]:
    config, prefix = settings.config, f"fs.s3a.bucket.{address.bucket}."
    if settings.profile is not None:
        text = f"Spark cannot take on the AWS profile {settings.profile!r}, whose keys are fetched: export them, `eval $(aws configure export-credentials --profile {settings.profile} --format env)`"
        raise InvalidInput(text, table=address.root)
    out: dict[str, str] = {}
    if endpoint := config.get("endpoint"):
        hosted = config.get("virtual_hosted_style_request", "").lower() in ("true", "1")
        out |= {
            "endpoint": endpoint.replace(f"://{address.bucket}.", "://", 1) if hosted else endpoint,
            "connection.ssl.enabled": str(not endpoint.lower().startswith("http:")).lower(),
            "path.style.access": str(not hosted).lower(),
        }
    if region := config.get("region") or ("us-east-1" if endpoint else None):
        out["endpoint.region"] = region
    if settings.keys is not None:
        access, secret, token = settings.keys
        out |= {"access.key": access, "secret.key": secret, "aws.credentials.provider": _TEMPORARY if token else _STATIC}
        if token:
            out["session.token"] = token
    elif config.get("skip_signature", "").lower() in ("true", "1"):
        out["aws.credentials.provider"] = _ANONYMOUS
    return {prefix + name: value for name, value in out.items()}


def options_of_session(bucket: str) -> dict[str, str]:
    """S3's options for a bucket out of the settings `fs.s3a...` of the process's Spark session, its keys among them; none without a session.

    The names are obstore's.  Keys that Hadoop takes from its credential files are among them; those of other providers than its own are not.
    """
    spark = session_of_process()
    if spark is None or not hasattr(spark, "_jsparkSession"):
        return {}
    conf, java = spark.sparkContext._jsc.hadoopConfiguration(), spark.sparkContext._jvm.java.lang

    def setting(name: str) -> str:
        return str(conf.getTrimmed(f"fs.s3a.bucket.{bucket}.{name}") or conf.getTrimmed(f"fs.s3a.{name}") or "")

    def secret(name: str) -> str:
        found = conf.getPassword(f"fs.s3a.bucket.{bucket}.{name}") or conf.getPassword(f"fs.s3a.{name}")
        return str(java.String.valueOf(found)).strip() if found else ""

    out, provider = {}, setting("aws.credentials.provider")
    if provider == _ANONYMOUS:
        out["skip_signature"] = "true"
    elif not provider or _STATIC in provider or _TEMPORARY in provider:
        keys = {"access_key_id": secret("access.key"), "secret_access_key": secret("secret.key")}
        if all(keys.values()):
            out = keys
            if (not provider or _TEMPORARY in provider) and (token := secret("session.token")):
                out["session_token"] = token
    endpoint, region = setting("endpoint"), setting("endpoint.region")
    if of_aws := _AWS_HOST.fullmatch(endpoint):
        region = region or of_aws[1] or ""
    elif endpoint:
        if "://" not in endpoint:
            endpoint = f"{'http' if setting('connection.ssl.enabled') == 'false' else 'https'}://{endpoint}"
        if setting("path.style.access") != "true" and not _UNNAMED_HOST.fullmatch(endpoint):
            out["virtual_hosted_style_request"], endpoint = "true", endpoint.replace("://", f"://{bucket}.", 1)
        out |= {"endpoint": endpoint, "allow_http": str(endpoint.startswith("http:")).lower()}
    return out | ({"region": region} if region else {})


def _gcs(address: Address, settings: Settings) -> dict[str, str]:
    out = {"fs.gs.impl": _CLASSES["gcs"]}
    key_file = next((settings.config[n] for n in ("service_account", "service_account_path", "application_credentials") if n in settings.config), None)
    if key_file:
        out |= {
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "google.cloud.auth.service.account.enable": "true",
            "google.cloud.auth.service.account.json.keyfile": key_file,
        }
    return out


def _azure(address: Address, settings: Settings) -> dict[str, str]:
    config = settings.config
    account = address.account or config.get("account_name", "")
    host = f"{account}.{address.account_suffix or _AZURE_HOST}"
    if key := config.get("account_key"):
        return {f"fs.azure.account.key.{host}": key}
    if token := config.get("sas_key"):
        return {f"fs.azure.account.auth.type.{host}": "SAS", f"fs.azure.sas.fixed.token.{host}": token}
    if (client := config.get("client_id")) and (secret := config.get("client_secret")):
        return {
            f"fs.azure.account.auth.type.{host}": "OAuth",
            f"fs.azure.account.oauth.provider.type.{host}": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
            f"fs.azure.account.oauth2.client.id.{host}": client,
            f"fs.azure.account.oauth2.client.secret.{host}": secret,
            f"fs.azure.account.oauth2.client.endpoint.{host}": f"https://login.microsoftonline.com/{config.get('tenant_id', 'common')}/oauth2/token",
        }
    return {}


ATOMIC = ("org.apache.hadoop.fs.Hdfs",)
"""The file systems of Hadoop whose rename is one step that refuses a target that is there.  Not WebHdfs, whose errors the client in PySpark's wheel cannot read."""
_ERRORS = {
    "java.io.FileNotFoundException": FileNotFoundError,
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "org.apache.hadoop.fs.ParentNotDirectoryException": NotADirectoryError,
    "org.apache.hadoop.security.AccessControlException": PermissionError,
}
T = TypeVar("T")


def open_files(uri: str) -> HadoopFiles:
    """The files of a folder.  Raises InvalidInput where there is no Spark session, the scheme is not known to Hadoop, or its rename does not serve."""
    spark, scheme = session_of_process(), scheme_of(uri)
    if spark is None or not hasattr(spark, "_jsparkSession"):
        text = f"{scheme}: tables are reached through the Hadoop client of a Spark session: start one first, for example by rowlock.spark()"
        raise InvalidInput(text, table=uri)
    Classes(spark).load("hadoop")
    conf, java = spark._jsparkSession.sessionState().newHadoopConf(), catalyst(spark).jvm.rowlock.Hadoop
    try:
        kind = str(java.kind(conf, uri))
        files = SparkFiles(java(conf, uri)) if kind in ATOMIC else None
    except (Py4JJavaError, CapturedException) as e:
        raise InvalidInput(f"Hadoop's client cannot open {scheme}: {_text(e)}", table=uri) from e
    if files is None:
        raise InvalidInput(
            f"the scheme {scheme}: is not supported: its file system, {kind}, is not known for an atomic rename that never replaces a file. "
            "Tables lie on hdfs: or on a mount of it whose folder is there, on a local path, file:, s3:, gs:, az: or abfss:",
            table=uri,
        )
    return files


def _text(error: Py4JJavaError | CapturedException) -> str:
    """The class and message of a Java exception, also of one that PySpark has made its own."""
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else error._origin
    return str(thrown.toString() if thrown is not None else error).partition("\n")[0]


def _done(call: Callable[[], T]) -> T:
    """What a call of the JVM gives; its exceptions as those of Python's file functions."""
    try:
        return call()
    except Py4JJavaError as e:
        raise _ERRORS.get(str(e.java_exception.getClass().getName()), OSError)(_text(e)) from e
    except CapturedException as e:
        raise OSError(_text(e)) from e


class SparkFiles:
    """The files below one folder.  `java` is a `rowlock.Hadoop`."""

    def __init__(self, java: Any) -> None:
        self.java = java
        self.root = str(java.root()).rstrip("/")

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return bytes(_done(lambda: self.java.read(path, start, -1 if length is None else length)))

    def write(self, path: str, parts: Iterable[bytes]) -> None:
        if isinstance(parts, tuple) and len(parts) == 1:
            _done(lambda: self.java.write(path, bytearray(parts[0])))
            return
        out = _done(lambda: self.java.create(path))
        try:
            for part in parts:
                _done(lambda data=part: out.write(bytearray(data)))  # type: ignore[misc]
            _done(out.hsync)
        finally:
            _done(out.close)

    def rename(self, source: str, target: str, *, replace: bool) -> None:
        _done(lambda: self.java.rename(source, target, replace))

    def info(self, path: str) -> FileInfo | None:
        found = _done(lambda: self.java.info(path))
        return None if found is None else _info(str(found))

    def entries(self, folder: str) -> list[FileInfo]:
        return [_info(each) for each in str(_done(lambda: self.java.entries(folder))).split("/")[:-1]]

    def delete(self, path: str) -> None:
        _done(lambda: self.java.delete(path))


def _info(line: str) -> FileInfo:
    kind, size, modified, name = line.split(" ", 3)
    return FileInfo(name, kind == "d", int(size), int(modified))
