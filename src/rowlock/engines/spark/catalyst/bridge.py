"""The bridge to Catalyst, Spark's optimizer: builds plans over Arrow tables and data files, and returns results as Arrow tables.

A statement is resolved once by Spark's analyzer.  Its expressions are then placed over other relations (a scan, or rows on
the driver) by the ids of their attributes, so every rebase computes exactly what staging computed.  A plan over rows on
the driver is evaluated by Spark's optimizer, without a job.  Classic sessions only (py4j); driver only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import orjson
import pyarrow as pa
from py4j.java_gateway import java_import
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.serializers import NoOpSerializer
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, VariantType
from pyspark.util import _load_from_socket

from rowlock import threads
from rowlock.exceptions import InvalidInput
from rowlock.protocol.arrow_types import VARIANT, is_variant

JavaObject = Any

_SENT_ROWS, _SENT_BYTES = 1 << 16, 16 << 20
_LOOKED_UP_OFTEN = ("org.apache.spark.api.python.PythonUtils", "org.apache.spark.sql.api.python.PythonSQLUtils", "org.apache.spark.sql.functions")
"""Classes that PySpark looks up by their short names for every column and DataFrame: unless each is imported by its full name, the JVM
searches all its JARs for them in every imported package first."""


class Catalyst:
    """Constructors and rules of Catalyst in one JVM."""

    def __init__(self, spark: SparkSession) -> None:
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise InvalidInput("Rowlock needs a classic SparkSession; this one is a Spark Connect session. Make one with rowlock.spark()")
        self.jvm = jvm
        for name in _LOOKED_UP_OFTEN:
            java_import(jvm, name)
        self.scans: JavaObject = None  # rowlock.Scans, from the first session on that is enabled
        self.has_delta_spark = False  # whether delta-spark is in the JVM, too, as far as a session was enabled
        self.data_files: JavaObject = None  # rowlock.DataFiles, from the first use on (see `read.scan.in_jvm`)
        self._properties: dict[str, JavaObject] = {}
        sql = jvm.org.apache.spark.sql
        expressions, logical = sql.catalyst.expressions, sql.catalyst.plans.logical
        # each lookup of a name in a JVM package costs a round trip, so all are made once, here
        self.alias, self.cast, self.subquery = expressions.Alias, expressions.Cast, expressions.SubqueryExpression
        self.not_null = expressions.KnownNotNull
        self.cast_to, self.invoke = _module(expressions, "Cast"), expressions.objects.Invoke
        self.new_id, self.bitwise_or = _module(expressions, "NamedExpression").newExprId, expressions.BitwiseOr
        self.subquery_alias, self.alias_identifier = logical.SubqueryAlias, sql.catalyst.AliasIdentifier
        self.struct_literal, self.struct_field = expressions.Literal, expressions.GetStructField
        self.at_least, self.literal = expressions.GreaterThanOrEqual, _module(expressions, "Literal")
        self.filter_node, self.project, self.local_node = logical.Filter, logical.Project, logical.LocalRelation
        self.hidden_outputs = _module(logical, "Project").hiddenOutputTag()
        self.mark = sql.catalyst.trees.TreeNodeTag
        self.union_node, self.one_row, self.join_node = logical.Union, logical.OneRowRelation, logical.Join
        self.hint_node, self.hint_info = logical.JoinHint, logical.HintInfo
        self.no_hint, self.broadcast = _module(logical, "JoinHint").NONE(), _module(logical, "BROADCAST")
        self.inner, self.some = _module(sql.catalyst.plans, "Inner"), jvm.scala.Some
        self.right_outer = _module(sql.catalyst.plans, "RightOuter")
        self.is_null, self.negated, self.either, self.conditional = expressions.IsNull, expressions.Not, expressions.Or, expressions.If
        self.equal_keys = sql.catalyst.planning.ExtractEquiJoinKeys.unapply
        self.python_udf, self.current_time = sql.catalyst.trees.TreePattern.PYTHON_UDF(), sql.catalyst.trees.TreePattern.CURRENT_LIKE()
        self.data_type, self.column_of = sql.types.DataType, sql.classic.ExpressionUtils
        self._array_list, self.frames = jvm.java.util.ArrayList, jvm.PythonSQLUtils
        self.serve = jvm.org.apache.spark.api.python.PythonRDD.serveIterator
        self.hadoop_path = jvm.org.apache.hadoop.fs.Path
        self.dataset = _module(sql.classic, "Dataset")
        self.arrow = _module(sql.execution.arrow, "ArrowConverters")
        self.converters = jvm.scala.jdk.javaapi.CollectionConverters
        self.none = jvm.scala.Option.empty()
        self.nil = _module(jvm.scala.collection.immutable, "Nil")
        self.compute_current_time = _module(sql.catalyst.optimizer, "ComputeCurrentTime")
        self.constant_folding = _module(sql.catalyst.optimizer, "ConstantFolding")
        self.replace_expressions = _module(sql.catalyst.optimizer, "ReplaceExpressions")
        self.to_local = _module(sql.catalyst.optimizer, "ConvertToLocalRelation")
        self.session_class = sql.classic.SparkSession
        self.collapse_project = _module(sql.catalyst.optimizer, "CollapseProject")
        self._is_instance = jvm.py4j.reflection.TypeUtil.isInstanceOf
        self.unwrap_casts = _module(sql.catalyst.optimizer, "UnwrapCastInBinaryComparison")
        self.sets_of_in = _module(sql.catalyst.optimizer, "OptimizeIn")  # also since the JSON of an In takes the square of its length

    def is_a(self, thing: JavaObject, name: str) -> bool:
        """Whether an object is of a class or an interface, by its full name."""
        return bool(self._is_instance(name, thing))

    def seq(self, items: Iterable[JavaObject]) -> JavaObject:
        """A Scala Seq."""
        return self.converters.asScala(self.array_list(items)).toSeq()

    def array_list(self, items: Iterable[Any]) -> JavaObject:
        """A java.util.ArrayList."""
        out = self._array_list()
        for item in items:
            out.add(item)
        return out

    def hash_map(self, items: Iterable[tuple[str, Any]]) -> JavaObject:
        """A java.util.HashMap."""
        out = self.jvm.java.util.HashMap()
        for name, value in items:
            out.put(name, value)
        return out

    def list(self, seq: JavaObject) -> list[JavaObject]:
        """A Python list of a Scala Seq's elements."""
        return [seq.apply(n) for n in range(seq.size())]

    def option(self, held: JavaObject) -> Any:
        """What a Scala Option holds; None where it is empty."""
        return held.get() if held.isDefined() else None

    def alias_as(self, child: JavaObject, attribute: JavaObject) -> JavaObject:
        """`child` under the name and the id of `attribute`, so that expressions over `attribute` read it."""
        return self.alias(child, attribute.name(), attribute.exprId(), self.nil, self.none, self.nil)

    def named(self, child: JavaObject, name: str) -> JavaObject:
        """`child` under a name and an id of its own."""
        return self.alias(child, name, self.new_id(), self.nil, self.none, self.nil)

    def filter(self, condition: JavaObject | None, child: JavaObject) -> JavaObject:
        """The plan of the rows of `child` that meet the condition; `child` itself without one."""
        return child if condition is None else self.filter_node(condition, child)

    def variables_in(self, manager: JavaObject) -> JavaObject:
        """The mutable map in which a manager of session variables keeps their definitions; Spark has no public way to list or copy them."""
        field = manager.getClass().getDeclaredField("variables")
        field.setAccessible(True)
        return field.get(manager)

    def properties(self, name: str, values: Mapping[str, str]) -> JavaObject:
        """Settings as one Java Properties object, which is set in one call; made once for each `name`."""
        if name not in self._properties:
            made = self.jvm.java.util.Properties()
            for key, value in values.items():
                made.setProperty(key, value)
            self._properties[name] = made
        return self._properties[name]

    def with_fixed_time(self, plan: JavaObject) -> JavaObject:
        """An analyzed plan with the current time fixed and with runtime-replaceable expressions replaced."""
        return self.replace_expressions.apply(self.compute_current_time.apply(plan))

    def column(self, attribute: JavaObject) -> Column:
        """An attribute as a Column that is resolved by its id, not by name."""
        return ClassicColumn(self.column_of.column(attribute))

    def ansi_cast(self, column: Column, wanted: DataType, *, lenient: bool = False) -> Column:
        """A value as another type; one that the type cannot hold raises (`lenient`: is null or cut), whatever the session says of ANSI."""
        value, type_ = self.column_of.expression(column._jc), self.data_type.fromJson(wanted.json())
        return self.column(self.cast_to.apply(value, type_, self.none, not lenient))

    def can_up_cast(self, actual: str, wanted: str) -> bool:
        """Whether Spark casts every value of a type to the other without loss; both as JSON."""
        return bool(self.cast.canUpCast(self.data_type.fromJson(actual), self.data_type.fromJson(wanted)))

    def known_not_null(self, column: Column) -> Column:
        """A column whose values the caller knows not to be null."""
        return self.column(self.not_null(self.column_of.expression(column._jc)))

    def variant_bytes(self, column: Column) -> Column:
        """The bytes of a variant as a text, value and metadata; null where the variant is."""
        value, type_ = self.column_of.expression(column._jc), self.data_type.fromJson('"binary"')
        parts = (self.invoke(value, name, type_, self.nil, self.nil, True, True, True) for name in ("getValue", "getMetadata"))
        return F.concat(*(F.hex(self.column(part)) for part in parts))

    def hiding_last(self, frame: DataFrame) -> DataFrame:
        """The frame without its last column, which a query still finds by its name, as it finds Spark's `_metadata` of a scan."""
        plan = analyzed(frame)
        outputs = plan.output()
        shown = self.project(outputs.init(), plan)
        shown.setTagValue(self.hidden_outputs, self.seq([outputs.last()]))
        return self.dataframe(shown, frame.sparkSession)

    def join(self, left: JavaObject, right: JavaObject, condition: JavaObject, *, broadcast: bool = False, outer: bool = False) -> JavaObject:
        """left JOIN right ON condition, RIGHT OUTER with `outer`; with `broadcast` the right side is sent to every task."""
        hint = self.hint_node(self.none, self.some(self.hint_info(self.some(self.broadcast)))) if broadcast else self.no_hint
        return self.join_node(left, right, self.right_outer if outer else self.inner, self.some(condition), hint)

    def at_least_zero(self, output: JavaObject) -> JavaObject:
        """`output >= 0`, for an aliased expression of type int."""
        return self.at_least(unaliased(output), self.literal.apply(0))

    def runs_python(self, expressions: Iterable[JavaObject]) -> bool:
        """Whether one of the expressions calls a Python UDF.  Spark calls these for every row, also within a branch that is not taken."""
        return any(e.containsPattern(self.python_udf) for e in expressions)

    def chosen(self, condition: JavaObject, yes: JavaObject, no: JavaObject) -> JavaObject:
        """IF(condition, yes, no), under the name and the id of `no`."""
        return self.alias_as(self.conditional(condition, unaliased(yes), unaliased(no)), no.toAttribute())

    def local(self, attributes: JavaObject, table: pa.Table, schema_json: str, session: JavaObject) -> JavaObject:
        """A LocalRelation whose output is `attributes` (a Scala Seq), holding the rows of `table` (columns in the same order).

        `schema_json` is the table's Spark schema.  Arrow types must be those that Spark maps it to.
        """
        plan = self.frame_of(table, schema_json, session).queryExecution().analyzed()
        if class_name(plan) != "LocalRelation":
            raise InvalidInput("Too many bytes for a relation on the driver; raise spark.sql.execution.arrow.localRelationThreshold")
        return self.local_node(attributes, plan.data(), False, self.none)

    def frame_of(self, table: pa.Table, schema_json: str, session: JavaObject) -> JavaObject:
        """Rows on the driver as a JVM Dataset, without pyspark's conversions.  The JVM is told no types: text that is not as long as the session says ends it."""
        batches = self.array_list(batch.serialize().to_pybytes() for batch in table.combine_chunks().to_batches(max_chunksize=rows_at_once(table)))
        return self.frames.toDataFrame(self.converters.asScala(batches.iterator()), schema_json, session)

    def dataframe(self, plan: JavaObject, spark: SparkSession, session: JavaObject | None = None) -> DataFrame:
        """A DataFrame of a resolved plan, on `session` (a JVM session) or on `spark`'s own."""
        return DataFrame(self.dataset.ofRows(session or spark._jsparkSession, plan), spark)

    def evaluate(self, plan: JavaObject, spark: SparkSession, session: JavaObject) -> pa.Table:
        """The rows of a plan over rows on the driver.  No job, unless the plan holds what only executors can run (a Python UDF)."""
        schema = plan.schema()
        optimized = self._computed(plan, session)
        if class_name(optimized) != "LocalRelation":
            optimized = self.dataset.ofRows(session, plan).queryExecution().optimizedPlan()
        if class_name(optimized) != "LocalRelation":
            return to_arrow(self.dataframe(plan, spark, session))
        rows = self.arrow.toBatchWithSchemaIterator(optimized.data().iterator(), schema, 64_000, 0, "UTC", False, False)
        if rows.hasNext():
            received: Any = _load_from_socket(self.serve(rows, "rowlock rows"), NoOpSerializer())
            # pyspark 4.2 gives a context that closes the socket; earlier versions give the stream itself, and close the socket at its end.
            with received if hasattr(received, "__enter__") else nullcontext(received) as streams:
                return pa.concat_tables([pa.ipc.open_stream(s).read_all() for s in streams])
        return arrow_schema(StructType.fromJson(orjson.loads(schema.json()))).empty_table()

    def _computed(self, plan: JavaObject, session: JavaObject) -> JavaObject:
        """The plan, evaluated by the one optimizer rule that computes over local relations; unchanged where this fails, for the whole optimizer.

        Expressions are interpreted: to compile one takes longer than to interpret it over some thousand rows.
        """
        with self.interpreting(session), suppress(PySparkException, Py4JJavaError):
            return self.to_local.apply(self.to_local.apply(plan))
        return plan

    @contextmanager
    def active(self, session: JavaObject) -> Iterator[None]:
        """A block in which this session's settings are those that parsing and evaluation ask: a thread may have no session, or another."""
        sessions = self.session_class
        before = sessions.getActiveSession()
        sessions.setActiveSession(session)
        try:
            yield
        finally:
            sessions.setActiveSession(before.get()) if before.isDefined() else sessions.clearActiveSession()

    @contextmanager
    def interpreting(self, session: JavaObject) -> Iterator[None]:
        """Evaluates what the JVM evaluates inside on this session, without compiling expressions."""
        with self.active(session):
            conf = session.sessionState().conf()
            conf.setConfString("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            try:
                yield
            finally:
                conf.unsetConf("spark.sql.codegen.factoryMode")


def _module(package: JavaObject, name: str) -> JavaObject:
    """The Scala object (singleton) of this name."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def entries(held: JavaObject) -> dict[str, JavaObject]:
    """A Java Map with texts as keys."""
    return {str(k): held[k] for k in held.keySet().toArray()}  # an iterator would end by a Java exception, which PySpark takes 50 calls to name


def class_name(node: JavaObject) -> str:
    """The short name of a JVM object's class."""
    return str(node.getClass().getSimpleName())


def rows_at_once(table: pa.Table) -> int:
    """How many rows of a table are sent to the JVM in one piece: py4j takes none of 256 MB."""
    return min(_SENT_ROWS, max(1, int(_SENT_BYTES * table.num_rows / max(1, table.nbytes))))


def analyzed(frame: DataFrame) -> JavaObject:
    """The resolved plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()


def unaliased(output: JavaObject) -> JavaObject:
    """The expression of an output without its name."""
    return output.child() if class_name(output) == "Alias" else output


def to_arrow(df: DataFrame) -> pa.Table:
    """The rows of a DataFrame on the driver, timestamps in UTC. One job."""
    fields = df.schema.fields
    if all(f.dataType == nullable_type(f.dataType) for f in fields):  # Arrow cannot cast a null struct that has a NOT NULL field
        return normalized(_collected(df))
    names = [f"c{n}" for n in range(len(fields))]
    loose = df.toDF(*names).select(*[F.col(n).cast(nullable_type(f.dataType)).alias(n) for n, f in zip(names, fields, strict=True)])
    return normalized(_collected(loose)).rename_columns([f.name for f in fields])


def _collected(df: DataFrame) -> pa.Table:
    """The rows as Arrow has them from Spark.  PySpark's own method fails where a variant is null."""
    if not any(holds(f.dataType, lambda leaf: isinstance(leaf, VariantType)) for f in df.schema.fields):
        return df.toArrow()
    classic: Any = df
    return pa.Table.from_batches(classic._collect_as_arrow(empty_list_if_zero_records=False))


def nullable(schema: StructType, *, metadata: bool = False) -> StructType:
    """The schema with every column and field nullable; the metadata of fields is dropped unless `metadata`."""
    return StructType([StructField(f.name, nullable_type(f.dataType, metadata=metadata), True, f.metadata if metadata else None) for f in schema.fields])


def nullable_type(t: DataType, *, metadata: bool = False) -> DataType:
    """The type with everything inside it nullable."""
    if isinstance(t, StructType):
        return nullable(t, metadata=metadata)
    if isinstance(t, ArrayType):
        return ArrayType(nullable_type(t.elementType, metadata=metadata), True)
    if isinstance(t, MapType):
        return MapType(nullable_type(t.keyType, metadata=metadata), nullable_type(t.valueType, metadata=metadata), True)
    return t


def is_collated(t: DataType) -> bool:
    """Whether a type is text whose comparisons follow a collation, or holds such text: only Spark compares that.

    Catalyst's JSON calls such a type `string`, like any other.
    """
    return holds(t, lambda leaf: isinstance(leaf, StringType) and leaf.collation != "UTF8_BINARY")


def holds(t: DataType, test: Callable[[DataType], bool]) -> bool:
    """Whether a type that is not nested passes a test, or one inside of a nested type does."""
    if isinstance(t, StructType):
        return any(holds(f.dataType, test) for f in t.fields)
    if isinstance(t, ArrayType):
        return holds(t.elementType, test)
    if isinstance(t, MapType):
        return holds(t.keyType, test) or holds(t.valueType, test)
    return test(t)


def with_parts(t: DataType, part: Callable[[DataType], DataType], field: Callable[[StructField], StructField]) -> DataType:
    """A struct with changed fields, an array or a map with what it holds changed; another type as it is."""
    if isinstance(t, StructType):
        return StructType([field(f) for f in t.fields])
    if isinstance(t, ArrayType):
        return ArrayType(part(t.elementType), t.containsNull)
    if isinstance(t, MapType):
        return MapType(part(t.keyType), part(t.valueType), t.valueContainsNull)
    return t


def fields_by_name(value: Column, have: StructType, want: StructType, part: Callable[[Column, DataType, DataType], Column]) -> list[Column]:
    """The fields of `want` of a struct with the fields `have`, each as `part` makes it of the one that has its name in any case; null where none has."""
    known = {f.name.lower(): f for f in have.fields}
    found = [(known.get(f.name.lower()), f) for f in want.fields]
    return [(F.lit(None).cast(f.dataType) if held is None else part(value.getField(held.name), held.dataType, f.dataType)).alias(f.name) for held, f in found]


def with_parts_of(value: Column, have: DataType, want: DataType, part: Callable[[Column, DataType, DataType], Column]) -> Column | None:
    """A struct with the fields of another, an array or a map with what it holds changed, each part as `part` makes it; None where the types have no parts in common."""
    if isinstance(have, StructType) and isinstance(want, StructType):
        return F.when(value.isNotNull(), F.struct(*fields_by_name(value, have, want, part)))
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return F.transform(value, lambda each: part(each, have.elementType, want.elementType))
    if isinstance(have, MapType) and isinstance(want, MapType):
        keyed = value if have.keyType == want.keyType else F.transform_keys(value, lambda key, _: part(key, have.keyType, want.keyType))
        return F.transform_values(keyed, lambda _, each: part(each, have.valueType, want.valueType))
    return None


def bare(t: DataType) -> DataType:
    """The type without the metadata of its fields."""
    return with_parts(t, bare, lambda f: StructField(f.name, bare(f.dataType), f.nullable))


def normalized(table: pa.Table, *, large: bool = False) -> pa.Table:
    """Timestamps with any time zone as UTC (the same instants), large strings as strings; with `large` the other way round."""
    fields = [pa.field(f.name, _normal_type(f.type, large), nullable=True) for f in table.schema]
    schema = pa.schema(fields)
    return table if schema.equals(table.schema) else table.cast(schema)


def _normal_type(t: pa.DataType, large: bool = False) -> pa.DataType:
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", tz="UTC" if t.tz else None)
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return pa.large_string() if large else pa.string()
    if pa.types.is_binary(t) or pa.types.is_large_binary(t):
        return pa.large_binary() if large else pa.binary()
    if is_variant(t) and not large:
        return VARIANT
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _normal_type(f.type, large), True) for f in t])
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return pa.list_(pa.field("element", _normal_type(t.value_type, large), True))
    if pa.types.is_map(t):
        return pa.map_(_normal_type(t.key_type, large), _normal_type(t.item_type, large))
    return t


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema, as `to_arrow` gives it; all nullable."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # pyspark 4.2 needs the zone of timestamps as an argument; earlier versions have no such argument and take UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return pa.schema([pa.field(f.name, _normal_type(f.type), True) for f in to_arrow_schema(schema, **zone)])


_instances: dict[int, Catalyst] = {}
_lock = threads.module_lock()
_parents_jvm: Any = None


def _after_fork() -> None:
    global _parents_jvm
    _instances.clear()
    _parents_jvm = SparkContext._jvm or _parents_jvm


threads.after_fork(_after_fork)


def catalyst(spark: SparkSession) -> Catalyst:
    """The bridge to the JVM of a session.  Raises InvalidInput for a Spark Connect session, and for the session of a parent process."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None and jvm is _parents_jvm:
        raise InvalidInput(
            "This Spark session belongs to the process that this one was forked from, and cannot be used by two: commands of both would meet on one connection. "
            'Start workers with multiprocessing.get_context("spawn") and a session of their own, or use threads'
        )
    key = id(jvm)
    with _lock:
        if key not in _instances:
            _instances.clear()
            _instances[key] = Catalyst(spark)
        return _instances[key]
