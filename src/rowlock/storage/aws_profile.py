"""AWS profiles: keys, region and endpoint from the files `credentials` and `config` in ~/.aws.

Keys in the files are read here.  Profiles that get their keys by assuming a role, by single sign-on or by running a
program are left to boto3.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from rowlock.exceptions import InvalidInput

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
        raise InvalidInput(
            f"the AWS profile {wanted!r} gets its keys by a role, single sign-on or a program, which needs boto3: pip install boto3", table=table
        )
    return Profile(wanted, values, needs_boto3)


def _file(variable: str, name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    named = os.environ.get(variable)
    try:
        parser.read(Path(named).expanduser() if named else Path("~/.aws").expanduser() / name, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError, RuntimeError) as e:
        raise InvalidInput(f"the AWS file {name} cannot be read: {type(e).__name__}") from None
    return parser


def _section(parser: configparser.ConfigParser, name: str) -> dict[str, str]:
    return dict(parser.items(name)) if parser.has_section(name) else {}
