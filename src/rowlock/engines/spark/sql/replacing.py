"""Replaces nodes of Spark's plans and expressions by what Python makes of them, where no class of Rowlock's is in the JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from rowlock.engines.spark.catalyst.bridge import JavaObject, class_name

_lock = threading.Lock()


def start_callback_server(spark: SparkSession) -> None:
    """Starts the server by which the JVM calls Python, if it does not run yet; it accepts connections when this returns.

    PySpark's own function returns before the server's thread listens, so a first call from the JVM could be refused; and two
    threads that call it at once start two servers.
    """
    gateway: Any = spark.sparkContext._gateway
    with _lock:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        gateway._callback_server.server_socket.listen(5)  # as the server's thread does; a second call changes nothing


def replaced(
    spark: SparkSession, transform: Callable[[JavaObject], JavaObject], kinds: Collection[str], made: Callable[[JavaObject], JavaObject | None]
) -> JavaObject:
    """What `transform`, a method of a tree such as `transformUp`, returns where each node of these classes becomes what `made` returns; None keeps it.

    Raises what `made` raises.
    """
    start_callback_server(spark)
    replace = _Replace(kinds, made)
    out = transform(replace)
    if replace.error is not None:
        raise replace.error
    return out


class _Replace:
    """A scala.PartialFunction: from a node to the one in its place."""

    class Java:
        """What py4j asks for."""

        implements: ClassVar[list[str]] = ["scala.PartialFunction"]

    def __init__(self, kinds: Collection[str], made: Callable[[JavaObject], JavaObject | None]) -> None:
        self._kinds, self._made = kinds, made
        self.error: Exception | None = None

    def isDefinedAt(self, node: JavaObject) -> bool:
        """Scala's name: whether the node is one to replace."""
        return class_name(node) in self._kinds

    def applyOrElse(self, node: JavaObject, otherwise: JavaObject) -> JavaObject:
        """Scala's name: what is in place of such a node, else the node."""
        return self.apply(node)

    def apply(self, node: JavaObject) -> JavaObject:
        """Scala's name: what is in place of such a node, else the node."""
        if self.error is not None or not self.isDefinedAt(node):
            return node
        try:
            made = self._made(node)
        except Exception as e:  # noqa: BLE001 - raised by `replaced`, when Java is through with the tree
            self.error = e
            return node
        return node if made is None else made
