"""boto3's errors for DynamoDB's answers, for a simulated server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_CODES = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    409: "TransactionInProgressException",
    500: "InternalServerError",
    503: "ThrottlingException",
}


def error_of(status: int | None, text: str) -> Exception:
    """The error for an answer with this status; None: there was no answer."""
    from botocore.exceptions import ClientError, ReadTimeoutError

    if status is None:
        silent: Exception = ReadTimeoutError(endpoint_url="https://dynamodb.simulated")
        return silent
    metadata: Any = {"Error": {"Code": _CODES[status], "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = ClientError(metadata, text)
    return error


def condition_failed(item: Mapping[str, Any] | None) -> Exception:
    """The error for a condition that does not hold; `item` is the existing row, if it was requested."""
    from botocore.exceptions import ClientError

    answer: Any = {"Error": {"Code": "ConditionalCheckFailedException", "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    error: Exception = ClientError({**answer, "Item": item} if item is not None else answer, "PutItem")
    return error


def cancelled(there: Sequence[Mapping[str, Any] | None]) -> Exception:
    """The error for a transaction that was not carried out: for each of its items, the row that should have been absent."""
    from botocore.exceptions import ClientError

    answer: Any = {"Error": {"Code": "TransactionCanceledException", "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    reasons: Any = [{"Code": "None" if row is None else "ConditionalCheckFailed"} for row in there]
    error: Exception = ClientError({**answer, "CancellationReasons": reasons}, "TransactWriteItems")
    return error
