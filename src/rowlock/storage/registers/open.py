"""Opens the registers of a lock provider: `object`, `dynamodb:TABLE` or `postgresql`.

ROWLOCK_LOCK_PROVIDER in the environment overrides the table's property.  A connection string for PostgreSQL may
contain a password, so it is never read from the table, only from the environment: ROWLOCK_LOCK_DSN, or
ROWLOCK_LOCK_PROVIDER itself, or libpq's own PGHOST, PGSERVICE and so on.  `storage_options` may set the same names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from rowlock import arguments
from rowlock.exceptions import InvalidInput
from rowlock.storage.options import Settings
from rowlock.storage.registers import dynamodb, postgresql
from rowlock.storage.registers.register import ObjectRegisters, Registers
from rowlock.storage.store import ObjectStore

PROVIDER_VARIABLE, DSN_VARIABLE = "ROWLOCK_LOCK_PROVIDER", "ROWLOCK_LOCK_DSN"
_POSTGRESQL = ("postgresql://", "postgres://")


def open_registers(store: ObjectStore, provider: str = "object", options: Mapping[str, str] | None = None) -> Registers:
    """The registers of the table at a store's root, with the given provider (unless the environment names another).

    `options`: credentials and endpoints, under their names in the environment, in addition to those that the store
    was opened with.  Raises InvalidInput for an unknown provider, or one whose client is not installed.
    """
    options = {**_options_of(store), **(options or {})}
    known = {**os.environ, **options}
    chosen = known.get(PROVIDER_VARIABLE) or provider
    if chosen == "object":
        return ObjectRegisters(store)
    if chosen.startswith("dynamodb:"):
        return dynamodb.DynamoDbRegisters(chosen.removeprefix("dynamodb:"), store.root, options)
    if (dsn := _dsn(chosen, known)) is not None:
        return postgresql.PostgresRegisters(dsn, store.root)
    raise _unknown_provider(chosen)


def create_lock_table(provider: str, storage_options: Mapping[str, str] | None = None) -> None:
    """Creates the table for leases, if it does not exist.  Needs no Spark.

    Args:
        provider: `dynamodb:TABLE`, `postgresql` (with the connection in the environment, ROWLOCK_LOCK_DSN or libpq's variables), or a `postgresql://` URL.
        storage_options: Credentials and endpoints under their names in the environment.

    Raises:
        InvalidInput: The provider is another (`object` needs no table), or its client is not installed.
        StorageError: The table cannot be created.
        WrongType: An argument is of another type.

    Examples:
        >>> rowlock.create_lock_table("object")
        Traceback (most recent call last):
        ...
        rowlock.exceptions.InvalidInput: ...
    """
    arguments.text(provider, "provider")
    options = arguments.text_by_text(storage_options, "storage_options")
    if provider.startswith("dynamodb:"):
        return dynamodb.create_table(provider.removeprefix("dynamodb:"), options or None)
    if (dsn := _dsn(provider, {**os.environ, **options})) is not None:
        return postgresql.create_table(dsn)
    raise _unknown_provider(provider)


def _options_of(store: ObjectStore) -> Mapping[str, str]:
    """The storage options that a store was opened with, under the names of the environment."""
    settings = getattr(getattr(store, "inner", store), "settings", None)  # an arbitrated store wraps the store that was opened
    if not isinstance(settings, Settings):
        return {}
    keys = dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), settings.keys or (), strict=False))
    return {k: v for k, v in keys.items() if v} | {k.upper(): v for k, v in settings.given.items()}


def _dsn(provider: str, options: Mapping[str, str]) -> str | None:
    """The PostgreSQL connection string of a provider; None for another provider.  libpq takes missing parts from its own variables."""
    if provider == "postgresql":
        return options.get(DSN_VARIABLE, "")
    return provider if provider.startswith(_POSTGRESQL) else None


def _unknown_provider(provider: str) -> InvalidInput:
    kind = re.match(r"\w{1,20}(?=:)", provider)  # show only this much: the provider may be a connection string
    return InvalidInput(
        f"There is no lock provider {repr(kind[0] + ':...') if kind else 'of this name'}: choose object, dynamodb:TABLE or postgresql (with {DSN_VARIABLE} in the environment)"
    )
