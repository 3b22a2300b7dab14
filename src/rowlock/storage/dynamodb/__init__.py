"""Delta's DynamoDB commit arbiter, for tables shared with Spark jobs that use S3DynamoDBLogStore, or stores without put-if-absent."""

from __future__ import annotations

from collections.abc import Mapping

from rowlock.exceptions import InvalidInput
from rowlock.protocol.features import store_kind
from rowlock.storage.dynamodb import settings
from rowlock.storage.dynamodb.arbiter import DEFAULT_TTL_S, ArbitratedStore
from rowlock.storage.dynamodb.entries import ArbiterUnreachable, Entry, EntryTable
from rowlock.storage.dynamodb.settings import CreatedTable, create_table
from rowlock.storage.store import ObjectStore


def arbitrated(store: ObjectStore, options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store with its commits arbitrated by DynamoDB, if the options (or, on S3, the environment) ask for it; else the store itself.

    Raises InvalidInput for an invalid option, or if boto3 is missing.
    """
    provider = (settings.option if store_kind(store.root) == "s3" else settings.given)(options, settings.PROVIDER)
    if provider is None or provider.lower() == "none" or isinstance(store, ArbitratedStore):
        return store
    if provider.lower() != "dynamodb":
        raise InvalidInput(f"{settings.PROVIDER} is {provider!r}; allowed are dynamodb and none", table=store.root)
    scheme, ttl = settings.option(options, settings.SCHEME), settings.option(options, settings.TTL_SECONDS)
    if ttl is not None and not ttl.isdigit():
        raise InvalidInput(f"{settings.TTL_SECONDS} is {ttl!r}; it must be a whole number of seconds", table=store.root)
    return ArbitratedStore(
        store,
        EntryTable(settings.client_of(options), settings.option(options, settings.TABLE_NAME) or settings.DEFAULT_TABLE_NAME),
        scheme=scheme.removesuffix("://") if scheme else None,
        ttl_s=int(ttl) if ttl else DEFAULT_TTL_S,
        conditional_copy=(settings.option(options, settings.CONDITIONAL_COPY) or "true").lower() not in ("false", "0", "no"),
    )


__all__ = ["ArbiterUnreachable", "ArbitratedStore", "CreatedTable", "Entry", "EntryTable", "arbitrated", "create_table"]
