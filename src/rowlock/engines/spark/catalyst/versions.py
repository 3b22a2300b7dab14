"""The versions of Spark that a session can be enabled on, and how the earlier ones differ from the newest: the one place that knows.

Rowlock's Java source is written for the newest; for an earlier one `java` has texts of it and their replacements.
"""

from __future__ import annotations

from dataclasses import dataclass

_STREAMING_RELATION = "org.apache.spark.sql.execution.streaming.runtime.StreamingRelation"

SCANS = {
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",  # a Python UDF over batches of files waits for ever in Spark 4.2
}
"""Settings with which Spark reads data files right, and which change no result."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of Spark.

    java         pairs of a text in Rowlock's Java source and what is compiled in its place
    sources      files of Java source that it alone needs
    constraints  whether its grammar has ADD and DROP CONSTRAINT
    """

    java: tuple[tuple[str, str], ...] = ()
    sources: tuple[str, ...] = ()
    constraints: bool = True


_NO_STREAM_NAMES = (
    (", given.userSpecifiedStreamingSourceName())", ")"),
    ("node.output(), node.sourceIdentifyingName())", "node.output())"),
)
"""Sources of streams have no names of their own."""
_NO_SPLITTING = (
    ("import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;\n", ""),
    ("    public SqlStatementSplitResult splitStatements(String text) { return next().splitStatements(text); }\n", ""),
)
_NO_METADATA_FLAG = ("structTypeToV2Columns(schema(), false)", "structTypeToV2Columns(schema())")

VERSIONS = {
    "4.0": Version(
        constraints=False,
        sources=("saved",),
        java=(
            *_NO_STREAM_NAMES,
            *_NO_SPLITTING,
            _NO_METADATA_FLAG,
            (_STREAMING_RELATION, _STREAMING_RELATION.replace(".runtime", "")),
            ("import org.apache.spark.sql.catalyst.parser.ParameterContext;\n", ""),
            ("TreePattern.PLAN_WITH_UNRESOLVED_IDENTIFIER()", "TreePattern.UNRESOLVED_IDENTIFIER()"),
            (
                """    public LogicalPlan parsePlanWithParameters(String text, ParameterContext values) throws ParseException {
        LogicalPlan ours = own(text);
        return ours != null ? ours : next().parsePlanWithParameters(text, values);
    }
""",
                "",
            ),
            ("return next().parseMultipartIdentifier(text);", "return Saved.named(session, next().parseMultipartIdentifier(text));"),
            ("new QueryContext[0], Option.empty(), Option.empty());", "new QueryContext[0]);"),
            ("super(Option.empty(), CurrentOrigin.get(), ", "super(Option.empty(), CurrentOrigin.get(), CurrentOrigin.get(), "),
        ),
    ),
    "4.1": Version(java=(*_NO_STREAM_NAMES, *_NO_SPLITTING, _NO_METADATA_FLAG)),
    "4.2": Version(java=_NO_SPLITTING),
    "4.3": Version(),
}


def version_of(spark_version: str) -> Version | None:
    """What is known of a version such as `4.1.2`; None of one that a session cannot be enabled on."""
    return VERSIONS.get(".".join(spark_version.split(".")[:2]))


def java_of(spark_version: str, source: str) -> str:
    """Rowlock's Java source as this version of Spark compiles it."""
    for newest, here in (version_of(spark_version) or Version()).java:
        source = source.replace(newest, here)
    return source
