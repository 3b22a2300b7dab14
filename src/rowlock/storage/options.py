"""Storage options: credentials, endpoints and connection settings of object stores; AWS profiles; and the addresses of tables.

Names are those of delta-rs and of the clouds (`AWS_ENDPOINT_URL`, `GOOGLE_SERVICE_ACCOUNT`,
`AZURE_STORAGE_ACCOUNT_NAME`, ...), in any case, or obstore's (`endpoint`, `region`, ...).  An option is taken from
the argument, else from the settings `fs.s3a...` of the process's Spark session, else from the environment.  Keys and tokens
are a group: if the argument has one of them, none is taken from elsewhere.  Values never appear in a repr or an error.

Keys in the files `credentials` and `config` in ~/.aws are read here.  Profiles that get their keys by assuming a role, by single sign-on or by running
a program are left to boto3.  In an address the path after the bucket is taken as it is, never decoded: the key `a%20b` is `s3://bucket/a%20b`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rowlock import clock
from rowlock.display import nearest
from rowlock.exceptions import InvalidInput
from rowlock.protocol.paths import SCHEME, SCHEME_ALIASES

if TYPE_CHECKING:
    from configparser import ConfigParser

_KEYS = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key", "aws_session_token": "session_token"}
_OTHERS = {"region": "region", "endpoint_url": "endpoint"}
_FOR_BOTO3 = ("role_arn", "sso_session", "sso_start_url", "credential_process", "credential_source", "web_identity_token_file")


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """The settings of a profile, under obstore's names; `needs_boto3`: its keys are not in the files."""

    name: str
    config: dict[str, str]
    needs_boto3: bool


def read(name: str | None, *, table: str | None = None) -> Profile | None:
    """The profile with this name, or the default one (None if that does not exist).

    Raises InvalidInput if a named profile does not exist, a file cannot be parsed, or boto3 is needed and missing.
    """
    wanted = name or "default"
    credentials, config = _file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), _file("AWS_CONFIG_FILE", "config")
    section = {**_section(config, wanted if wanted == "default" else f"profile {wanted}"), **_section(credentials, wanted)}
    if not section:
        if name is None:
            return None
        raise InvalidInput(f"there is no profile {name!r} in the AWS files; `aws configure --profile {name}` creates one", table=table)
    values = {new: section[old] for old, new in {**_KEYS, **_OTHERS}.items() if section.get(old)}
    needs_boto3 = "access_key_id" not in values and any(k in section for k in _FOR_BOTO3)
    if needs_boto3 and importlib.util.find_spec("boto3") is None:
        text = f"the AWS profile {wanted!r} gets its keys by a role, single sign-on or a program, which needs boto3: pip install boto3"
        raise InvalidInput(text, table=table)
    return Profile(wanted, values, needs_boto3)


def _file(variable: str, name: str) -> ConfigParser:
    import configparser

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    named = os.environ.get(variable)
    try:
        parser.read(Path(named).expanduser() if named else Path("~/.aws").expanduser() / name, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError, RuntimeError) as e:
        raise InvalidInput(f"the AWS file {name} cannot be read: {type(e).__name__}") from None
    return parser


def _section(parser: ConfigParser, name: str) -> dict[str, str]:
    return dict(parser.items(name)) if parser.has_section(name) else {}


Kind = Literal["s3", "gcs", "azure"]
PREFIXES: dict[str, Kind] = {"aws_": "s3", "s3_": "s3", "google_": "gcs", "gcs_": "gcs", "azure_": "azure"}

CLIENT = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only", "http2_only", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes", "randomize_addresses", "read_timeout", "root_certificate",
    "timeout", "user_agent",
})  # fmt: skip
"""Connection options, which mean the same on every cloud."""
_SWITCHES = frozenset({"allow_http", "allow_invalid_certificates", "http1_only", "http2_only", "randomize_addresses"})

IGNORED_OPTIONS = re.compile(
    r"^(aws_)?((\w+_)?dynamodb|(endpoint_url_)?sts|s3_locking_provider|s3_allow_unsafe_rename|force_credential_load|s3_dynamo_\w+|s3_assume_role\w*|s3_pool_\w+|s3_get_\w+)"
    r"|dynamo_\w+|delta_\w+|rowlock_\w+|max_retries|retry_timeout|backoff_config\.\w+"
)
"""Names that object stores ignore: options of the arbiter, and options of delta-rs that Rowlock does not need."""

_S3_CREDENTIALS = ("access_key_id", "secret_access_key", "session_token")
_S3_WHO = (*_S3_CREDENTIALS, "profile", "skip_signature")
_S3_WHERE = ("endpoint", "allow_http", "virtual_hosted_style_request")
_S3_NAMES = {"endpoint_url": "endpoint", "token": "session_token", "endpoint_url_s3": "endpoint", "default_region": "region", "bucket_name": "bucket"}
_S3_CREDENTIAL_SOURCES = ("role_arn", "web_identity_token_file", "container_credentials_relative_uri", "container_credentials_full_uri")
_S3_FROM_ENVIRONMENT = frozenset({*_S3_CREDENTIALS, *_S3_CREDENTIAL_SOURCES, "region", "endpoint", "profile", "skip_signature"})
"""The S3 options that are read from the environment here; obstore reads the others itself."""
_AZURE_NAMES = {
    "storage_account_name": "account_name",
    "storage_account_key": "account_key",
    "storage_sas_token": "sas_key",
    "storage_sas_key": "sas_key",
    "storage_client_id": "client_id",
    "storage_client_secret": "client_secret",
    "storage_tenant_id": "tenant_id",
    "storage_authority_id": "tenant_id",
    "storage_endpoint": "endpoint",
    "storage_use_emulator": "use_emulator",
}
_NOT_SECRET = frozenset({"account_name", "client_id", "tenant_id", "client_email", "private_key_id"})
_SECRET = re.compile(r"secret|token|password|sas|(^|_)key|access_key_id|credential|service_account|customer_key")
_IN_URLS = re.compile(r"(?i)\b(sig|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|se|skoid|sktid)=[^&\s\"'<>]+")
_FINGERPRINT_KEY = clock.new_uuid().bytes


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """The settings of a store on one cloud.  `config` uses obstore's names; `client` holds the connection options."""

    kind: Kind
    config: Mapping[str, str]
    client: Mapping[str, str | bool] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    """The options as passed by the caller, names in lower case; the arbiter and lock providers take theirs from here."""
    profile: str | None = None
    """An AWS profile whose keys boto3 must fetch; None if none is needed."""

    def __repr__(self) -> str:
        return f"Settings({self.kind}: {', '.join(sorted({*self.config, *self.client}))})"

    @property
    def fingerprint(self) -> str:
        """Equal for equal settings within this process; reveals nothing about them."""
        return _fingerprint((self.kind, sorted(self.config.items()), sorted(self.client.items()), sorted(self.given.items()), self.profile))

    @property
    def keys(self) -> tuple[str, str, str | None] | None:
        """S3's (access key, secret key, session token) if the settings contain them; None if the store fetches them itself."""
        key, secret = self.config.get("access_key_id"), self.config.get("secret_access_key")
        return (key, secret, self.config.get("session_token")) if key and secret else None

    def redacted(self, text: object) -> str:
        """The text with all secrets of these settings and all URL signatures masked."""
        out = _IN_URLS.sub(r"\1=***", str(text))
        secrets = [v for names in (self.config, self.given) for k, v in names.items() if _SECRET.search(k) and k not in _NOT_SECRET and len(v) > 3]
        for secret in sorted({*secrets}, key=len, reverse=True):
            out = out.replace(secret, "***")
        return out


def _fingerprint(of: object) -> str:
    return hashlib.blake2b(repr(of).encode(), key=_FINGERPRINT_KEY, digest_size=12).hexdigest()


def environment_fingerprint() -> str:
    """Equal while the environment's cloud settings are unchanged, within this process."""
    return _fingerprint(sorted(_environment().items()))


def settings_for(
    kind: Kind, storage_options: Mapping[str, str] | None = None, *, table: str | None = None, of_session: Mapping[str, str] | None = None
) -> Settings:
    """The settings of a store, from `storage_options`, a Spark session's settings, and the environment.  Raises InvalidInput for options that cannot be used."""
    given = {str(k).lower(): str(v) for k, v in (storage_options or {}).items()}
    mine = _options_for(kind, given)
    mine = _beside(mine, of_session or {}) | mine
    from_environment = {k: v for k, v in _options_for(kind, _environment()).items() if k in CLIENT or (kind == "s3" and k in _S3_FROM_ENVIRONMENT)}
    client = {k: v for k, v in {**from_environment, **mine}.items() if k in CLIENT}
    mine, from_environment = ({k: v for k, v in names.items() if k not in CLIENT} for names in (mine, from_environment))
    if kind == "s3":
        config, profile = _s3(mine, from_environment, table)
    else:  # for the other clouds obstore reads the environment itself
        config, profile = mine, None
    return Settings(kind, config, {k: v.lower() in ("true", "1", "yes") if k in _SWITCHES else v for k, v in client.items()}, given, profile)


def _beside(mine: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """The session's options that apply beside the argument's: without keys if the argument has some, without the endpoint's if it names one."""
    out = {*(_S3_WHO if _has_keys(mine) else ()), *(_S3_WHERE if "endpoint" in mine else ())}
    return {k: v for k, v in session.items() if k not in out}


def _has_keys(mine: Mapping[str, str]) -> bool:
    return any(k in mine for k in _S3_CREDENTIALS) or mine.get("skip_signature") in ("true", "1") or "profile" in mine


def _environment() -> dict[str, str]:
    return {k.lower(): v for k in os.environ if k.lower().startswith(tuple(PREFIXES)) and (v := os.environ.get(k))}


def _options_for(kind: Kind, options: Mapping[str, str]) -> dict[str, str]:
    """The options for this cloud, under obstore's short names."""
    out: dict[str, str] = {}
    for name, value in options.items():
        prefix = next((p for p in PREFIXES if name.startswith(p)), "")
        if IGNORED_OPTIONS.fullmatch(name) or (prefix and PREFIXES[prefix] != kind):
            continue
        short = name.removeprefix(prefix)
        short = {"s3": _S3_NAMES, "azure": _AZURE_NAMES, "gcs": {}}[kind].get(short, short)
        if short not in out or name.removeprefix(prefix) == short or name.endswith("_s3"):
            out[short] = value
    return out


def _s3(mine: dict[str, str], from_environment: dict[str, str], table: str | None) -> tuple[dict[str, str], str | None]:
    """S3's configuration and the name of a profile that needs boto3.

    Keys come from the argument, else from the profile that it names, else from the environment, else from the default
    profile, else (by obstore) from the instance.
    """
    if mine.get("conditional_put", "etag") != "etag":
        raise InvalidInput("conditional_put must be 'etag': a commit is a put with If-None-Match, and nothing else decides who wins", table=table)
    own_keys = _has_keys(mine)
    config = {**{k: v for k, v in from_environment.items() if not (own_keys and k in _S3_WHO)}, **mine}
    wanted = config.pop("profile", None)
    if any(k in config for k in ("access_key_id", *_S3_CREDENTIAL_SOURCES)) or config.get("skip_signature") in ("true", "1"):
        return config, None
    profile = read(wanted, table=table)
    if profile is None:
        return config, None
    return {**profile.config, **config}, profile.name if profile.needs_boto3 else None


def unknown_name(settings: Settings, name: str) -> InvalidInput:
    """The error for an option that the store does not know; it does not contain the option's value."""
    asked = next((k for k in settings.given if k.endswith(name.lower()) or name.lower().endswith(k)), name)
    near = nearest(name, [*CLIENT, *_AZURE_NAMES, *_S3_NAMES, *_S3_CREDENTIALS, "region", "profile"], 0.6)
    return InvalidInput(f"storage_options: {asked!r} is not an option of {settings.kind}" + (f"; did you mean {near!r}?" if near else ""))


SCHEMES: dict[str, Kind] = {
    "s3": "s3", "s3a": "s3", "s3n": "s3",
    "gs": "gcs", "gcs": "gcs",
    "az": "azure", "azure": "azure", "abfs": "azure", "abfss": "azure", "wasb": "azure", "wasbs": "azure",
}  # fmt: skip
_URI = re.compile(rf"^(?P<scheme>{SCHEME})://(?:(?P<container>[^/@]+)@)?(?P<host>[^/]+)(?P<path>/.*)?$", re.DOTALL)
_SIGNED = re.compile(r"(?i)[?&](sig|se|sv|x-amz-\w+|x-amz-[\w-]+|x-goog-[\w-]+|awsaccesskeyid|signature)=")
_USER = re.compile(r"(?<=://).*:.*@", re.DOTALL)  # a secret key of AWS may have a slash in it
_CANONICAL_SCHEME = {**SCHEME_ALIASES, "azure": "az"}


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a table's URI.  `root` is the canonical URI without a trailing slash: two spellings of one location have one root."""

    kind: Kind
    bucket: str
    prefix: str
    root: str
    account: str | None = None
    account_suffix: str | None = None


def shown(uri: str) -> str:
    """The URI for error messages, without its password and parameters."""
    place, query, _ = uri.partition("?")
    return _USER.sub("***@", place) + (f"{query}***" if query else "")


def parse(uri: str) -> Address:
    """The address of a URI; raises InvalidInput if it names no bucket or no folder in it, or holds a secret."""
    if _SIGNED.search(uri):
        raise InvalidInput("a table's URI must not contain a signature: pass it as storage_options (AZURE_STORAGE_SAS_TOKEN)", table=shown(uri))
    match = _URI.match(uri)
    if match is None or match["scheme"].lower() not in SCHEMES:
        raise InvalidInput("not a URI on an object store; expected s3://bucket/folder, gs://bucket/folder or az://container/folder", table=shown(uri))
    if ":" in (match["container"] or "") + match["host"]:
        raise InvalidInput("a table's URI must not contain a user or password: pass them as storage_options", table=shown(uri))
    scheme, path = match["scheme"].lower(), (match["path"] or "").strip("/")
    kind = SCHEMES[scheme]
    if not path or any(part in ("", ".", "..") for part in path.split("/")):
        text = "a table must be in a folder of a bucket: the path after the bucket is empty, or has a part that is empty, '.' or '..'"
        raise InvalidInput(text, table=shown(uri))
    if match["container"] is not None:
        if kind != "azure":
            raise InvalidInput("a table's URI must not contain a user or password: pass them as storage_options", table=f"{scheme}://{match['host']}/{path}")
        account, _, suffix = match["host"].partition(".")
        secure = "abfss" if scheme in ("abfs", "abfss", "az", "azure") else scheme
        return Address(kind, match["container"], path, f"{secure}://{match['container']}@{match['host']}/{path}", account, suffix or None)
    name = _CANONICAL_SCHEME.get(scheme, "az" if kind == "azure" else scheme)
    return Address(kind, match["host"], path, f"{name}://{match['host']}/{path}")
