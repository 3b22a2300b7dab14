"""I9: the table of commands has each of the installed Spark's and no other.  The class files of its JARs are read; a new Spark's new command fails here."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from rowlock.engines.spark.catalyst.versions import VERSIONS
from rowlock.engines.spark.sql.commands import CHECKED, HARMLESS, NOT_ANSWERED, REFUSED, statement_name
from support.needs import INSTALLED

KNOWN = HARMLESS | CHECKED | REFUSED
COMMAND = "org/apache/spark/sql/catalyst/plans/logical/Command"
NO_COMMANDS = {
    "org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement",
    "org.apache.spark.sql.catalyst.streaming.WriteToStream",
    "org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement",
    "org.apache.spark.sql.execution.datasources.CreateTable",
}
"""Not commands of Spark's, but they write."""
LOGICAL, COMMANDS = "org.apache.spark.sql.catalyst.plans.logical.", "org.apache.spark.sql.execution.command."
SINCE = {
    "4.1": {
        *(LOGICAL + name for name in ("AddCheckConstraint", "AddConstraint", "CreateFlowCommand", "CreateMaterializedViewAsSelect", "CreateStreamingTable")),
        *(LOGICAL + name for name in ("CreateStreamingTableAsSelect", "DropConstraint")),
        *(COMMANDS + name for name in ("DescribeProcedureCommand", "SaveAsV1TableCommand", "SetNamespaceCollationCommand", "ShowNamespacesCommand")),
        COMMANDS + "ShowProceduresCommand",
    },
    "4.2": {
        *(LOGICAL + name for name in ("CloseCursor", "CreateTableLike", "DeclareCursor", "DescribeTablePartition", "FetchCursor", "InsertOnlyMerge")),
        LOGICAL + "OpenCursor",
        *(COMMANDS + name for name in ("CreateMetricViewCommand", "SetPathCommand", "ShowCollationsCommand")),
        "org.apache.spark.sql.metricview.logical.CreateMetricView",
    },
    "4.3": {
        LOGICAL + "CreateStreamingTableAutoCdc",
        *(COMMANDS + name for name in ("AlterTableChangeColumnCommentsCommand", "ShowPartitionsJsonCommand", "ShowTablesJsonCommand")),
    },
}
"""The commands that a version of Spark brought."""
UNTIL = {"4.0": {LOGICAL + "ShowNamespaces"}}
"""The commands that a version of Spark was the last to have."""
ABSTRACT = 0x0600
_NESTED = re.compile(r"\$.+")  # of anonymous and inner classes; a Scala object has a bare $ at its end


def parents_of(code: bytes) -> tuple[str, list[str], int]:
    """(name, superclass and interfaces, access flags) of a class file."""
    (count,) = struct.unpack_from(">H", code, 8)
    constants: list[bytes | int | None] = [None] * count
    at, n = 10, 1
    while n < count:
        tag = code[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", code, at + 1)
            constants[n] = code[at + 3 : at + 3 + size]
            at += 3 + size
        elif tag in (7, 8, 16, 19, 20):
            (constants[n],) = struct.unpack_from(">H", code, at + 1)
            at += 3
        elif tag in (5, 6):
            at, n = at + 9, n + 1
        else:
            at += 4 if tag == 15 else 5
        n += 1
    flags, own, above, interfaces = struct.unpack_from(">HHHH", code, at)

    def named(index: int) -> str:
        entry = constants[index]
        assert isinstance(entry, int)
        name = constants[entry]
        assert isinstance(name, bytes)
        return name.decode()

    others = [named(struct.unpack_from(">H", code, at + 8 + 2 * k)[0]) for k in range(interfaces)]
    return named(own), [*([named(above)] if above else []), *others], flags


def commands() -> Iterator[str]:
    """The full name of every command class in Spark's JARs that can be instantiated."""
    parents: dict[str, list[str]] = {}
    concrete: set[str] = set()
    for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.startswith("org/apache/spark/sql/") and entry.endswith(".class") and not _NESTED.search(entry.removesuffix(".class")):
                    name, above, flags = parents_of(archive.read(entry))
                    parents[name] = above
                    if not flags & ABSTRACT:
                        concrete.add(name)
    known = {COMMAND: True}

    def is_command(name: str) -> bool:
        if name not in known:
            known[name] = False
            known[name] = any(is_command(p) for p in parents.get(name, ()))
        return known[name]

    yield from (name.replace("/", ".") for name in concrete if is_command(name))


def of_version(commands_: frozenset[str], version: str) -> frozenset[str]:
    """Those of these commands that Spark `version` (such as `4.1`) has."""
    later = (names for since, names in SINCE.items() if since > version)
    gone = (names for until, names in UNTIL.items() if until < version)
    return commands_.difference(*later, *gone)


@pytest.fixture(scope="module")
def found() -> set[str]:
    return set(commands())


def test_every_command_of_spark_has_been_looked_at(found: set[str]) -> None:
    assert len(found) > 140
    assert found - of_version(KNOWN, INSTALLED) == set()


def test_the_lists_name_only_what_there_is(found: set[str]) -> None:
    assert of_version(KNOWN, INSTALLED) - found - NO_COMMANDS == set()


def test_a_version_lacks_what_later_ones_brought() -> None:
    sizes = [len(of_version(KNOWN, version)) for version in sorted(VERSIONS)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]


def test_no_command_is_in_two_lists() -> None:
    assert not (HARMLESS & CHECKED) | (HARMLESS & REFUSED) | (CHECKED & REFUSED)
    assert NOT_ANSWERED <= HARMLESS


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("org.apache.spark.sql.execution.command.AlterTableDropPartitionCommand", "ALTER TABLE DROP PARTITION"),
        ("org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable", "MERGE"),
        ("org.apache.spark.sql.execution.command.ClearCacheCommand$", "CLEAR CACHE"),
    ],
)
def test_commands_have_names_that_people_know(command: str, said: str) -> None:
    assert statement_name(command) == said
