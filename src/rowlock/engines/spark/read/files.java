// Data files whose rows have values that the log knows.  Spark's own Janino compiles this file at run time (see compiled.py); only the driver needs it.
package rowlock;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.Dependency;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.ParallelCollectionRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.InternalRow$;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ArrayJoin;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MapKeys;
import org.apache.spark.sql.catalyst.expressions.MapValues;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.OctetLength;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.Size;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Limit$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.execution.CollectLimitExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils$;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The data files of a snapshot: Spark lists nothing, and each has values of its own, which Spark takes for those of a partition: they cost nothing for a row, and conditions on them skip files. */
public class Files implements FileIndex {
    private final Path table;
    private final StructType columns;
    /** A row of these columns for each file. */
    private final InternalRow[] values;
    private final FileStatus[] files;

    public Files(Path table, StructType columns, InternalRow[] values, FileStatus[] files) {
        this.table = table;
        this.columns = columns;
        this.values = values;
        this.files = files;
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        java.util.List wanted = new ArrayList();
        for (int n = 0; n < partitionFilters.size(); n++) wanted.add(Predicate.createInterpreted((Expression) ((Expression) partitionFilters.apply(n)).transform(new Bind(columns))));
        java.util.List out = new ArrayList();
        for (int n = 0; n < files.length; n++) {
            if (!meets(values[n], wanted)) continue;
            Object file = new FileStatusWithMetadata(files[n], (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty());
            out.add(new PartitionDirectory(values[n], Living.one(file)));
        }
        return CollectionConverters.asScala(out).toSeq();
    }

    private static boolean meets(InternalRow row, java.util.List wanted) {
        for (int n = 0; n < wanted.size(); n++) if (!((BasePredicate) wanted.get(n)).eval(row)) return false;
        return true;
    }

    public Seq rootPaths() { return Living.one(table); }

    public String[] inputFiles() {
        String[] out = new String[files.length];
        for (int n = 0; n < files.length; n++) out[n] = files[n].getPath().toUri().toString();
        return out;
    }

    public void refresh() { }

    public long sizeInBytes() {
        long sum = 0;
        for (int n = 0; n < files.length; n++) sum += files[n].getLen();
        return sum;
    }

    public StructType partitionSchema() { return columns; }
    public Option metadataOpsTimeNs() { return Option.empty(); }
    public String toString() { return "Rowlock[" + files.length + " files of " + table + "]"; }
    public boolean equals(Object other) { return other instanceof Files && columns.equals(((Files) other).columns) && Arrays.equals(files, ((Files) other).files) && Arrays.equals(values, ((Files) other).values); }
    public int hashCode() { return Arrays.hashCode(files); }
}

/** The attribute `_metadata` without the numbers of rows. */
class WithoutRowIndex extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) { return node instanceof AttributeReference && ((AttributeReference) node).name().equals("_metadata"); }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        StructType whole = (StructType) ((AttributeReference) node).dataType();
        java.util.List fields = new ArrayList(Arrays.asList(whole.fields()));
        fields.remove(whole.apply("row_index"));
        return ((AttributeReference) node).withDataType(DataTypes.createStructType(fields));
    }
}

/** Conditions over columns by name as conditions over a row of them. */
class Bind extends scala.runtime.AbstractPartialFunction {
    private final StructType columns;

    Bind(StructType columns) { this.columns = columns; }

    public boolean isDefinedAt(Object node) { return node instanceof AttributeReference; }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        int at = columns.fieldIndex(((AttributeReference) node).name());
        return new BoundReference(at, columns.apply(at).dataType(), true);
    }
}

/** Plans scans of files with dead rows: they are left out before any other condition is computed, which may raise on them. */
class Living extends SparkStrategy {
    static final String BYTES = "__rowlock_bytes";

    /** Plans nothing but scans of `Files`, and the rows of `within` as Spark plans rows that it collects: without a stage of their own. */
    public Seq apply(LogicalPlan plan) {
        LogicalPlan at = plan;
        if (plan instanceof Project && ((Project) plan).child() instanceof GlobalLimit && plan.output().nonEmpty() && ((Attribute) plan.output().last()).name().equals(BYTES)) {
            GlobalLimit limit = (GlobalLimit) ((Project) plan).child();
            int most = ((Integer) limit.limitExpr().eval(null)).intValue();
            return one(new ProjectExec(((Project) plan).projectList(), new CollectLimitExec(most, planLater((LogicalPlan) limit.child()), 0)));
        }
        while (at instanceof UnaryNode) at = (LogicalPlan) ((UnaryNode) at).child();
        Seq none = (Seq) Nil$.MODULE$;
        if (at == plan || !(at instanceof LogicalRelation) || !(((LogicalRelation) at).relation() instanceof HadoopFsRelation)) return none;
        if (!(((HadoopFsRelation) ((LogicalRelation) at).relation()).location() instanceof Files)) return none;
        Seq planned = FileSourceStrategy$.MODULE$.apply(plan);
        return planned.isEmpty() ? none : one(((SparkPlan) planned.head()).transformUp(new Apart()));
    }

    static Seq one(Object item) { return CollectionConverters.asScala(java.util.Collections.singletonList(item)).toSeq(); }
}

/** A filter of a scan as two, the one by dead rows below. */
class Apart extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) { return node instanceof FilterExec; }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        Expression[] parts = new Expression[2];
        divide(((FilterExec) node).condition(), parts);
        if (parts[0] == null || parts[1] == null) return node;
        return new FilterExec(parts[1], new FilterExec(parts[0], (SparkPlan) ((FilterExec) node).child()));
    }

    private static void divide(Expression condition, Expression[] parts) {
        if (condition instanceof And) {
            divide(((And) condition).left(), parts);
            divide(((And) condition).right(), parts);
            return;
        }
        int n = 1;
        for (scala.collection.Iterator leaves = condition.collectLeaves().iterator(); leaves.hasNext(); ) {
            Object leaf = leaves.next();
            if (leaf instanceof Literal && ((Literal) leaf).dataType() instanceof ObjectType) n = 0;  // the numbers of `at`
        }
        parts[n] = parts[n] == null ? condition : new And(parts[n], condition);
    }
}

/** What SparkSessionExtensions takes. */
class MakeLiving implements scala.Function1 {
    public Object apply(Object session) { return new Living(); }
}

/**
 * Parquet files whose readers get fewer of a query's conditions than Spark hands on, since by these they would pass over rows; Spark asks each row anyway.  They get none
 * where a file's decimals may have fewer digits than their column, to which Spark cuts the numbers of conditions, and none with a float or a double: other writers leave
 * NaN, which is above all numbers, out of the bounds in a footer, and -0.0 is not found in a dictionary where 0.0 is asked for.
 */
class CarefulFiles extends ParquetFileFormat {
    private final boolean unfiltered;

    CarefulFiles(boolean unfiltered) { this.unfiltered = unfiltered; }

    public scala.Function1 buildReaderWithPartitionValues(SparkSession session, StructType data, StructType partitions, StructType required, Seq filters, Map options,
            Configuration settings) {
        java.util.List kept = new ArrayList();
        for (scala.collection.Iterator each = filters.iterator(); each.hasNext(); ) {
            Object filter = each.next();
            if (!unfiltered && !holdsFloat(filter)) kept.add(filter);
        }
        return new ParquetFileFormat().buildReaderWithPartitionValues(session, data, partitions, required, CollectionConverters.asScala(kept).toSeq(), options, settings);
    }

    private static boolean holdsFloat(Object part) {
        if (part instanceof scala.Product) {
            for (scala.collection.Iterator each = ((scala.Product) part).productIterator(); each.hasNext(); ) if (holdsFloat(each.next())) return true;
        } else if (part instanceof Object[]) {
            Object[] values = (Object[]) part;
            for (int n = 0; n < values.length; n++) if (holdsFloat(values[n])) return true;
        }
        return part instanceof Double || part instanceof Float;
    }
}

/** What Python calls. */
public class DataFiles {
    /** The extensions of sessions whose planners know `Living`. */
    private static final java.util.Set KNOWN = java.util.Collections.synchronizedSet(java.util.Collections.newSetFromMap(new WeakHashMap()));

    /**
     * The plan of a scan of the files of a table.  `files` has a line for each: its URI, bytes and time of modification (ms).  `constants` has a row for each: the
     * values of its columns beside those of `data`; null where there are none.  With `metadata` it has Spark's `_metadata` without the numbers of rows, which
     * Spark gives only once.
     */
    public LogicalPlan scan(org.apache.spark.sql.classic.SparkSession session, String table, StructType data, String files, Dataset constants, java.util.Map options, boolean metadata) {
        plansLivingRows(session.extensions());
        String[] lines = files.split("\n");
        org.apache.spark.sql.classic.Dataset given = (org.apache.spark.sql.classic.Dataset) constants;
        InternalRow[] rows = given == null ? null : given.queryExecution().executedPlan().executeCollect();
        StructType columns = given == null ? new StructType() : given.schema();
        FileStatus[] held = new FileStatus[lines.length];
        InternalRow[] values = new InternalRow[lines.length];
        for (int n = 0; n < lines.length; n++) {
            String[] file = lines[n].split(" ");
            held[n] = new FileStatus(Long.parseLong(file[1]), false, 1, 1, Long.parseLong(file[2]), path(file[0]));
            values[n] = rows == null ? InternalRow$.MODULE$.empty() : InternalRow$.MODULE$.fromSeq(rows[n].toSeq(columns));
        }
        scala.collection.immutable.Map all = (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
        boolean unfiltered = options.containsKey("rowlockunfiltered"), floats = data.catalogString().matches("(?s).*(float|double).*");
        ParquetFileFormat format = unfiltered || floats ? new CarefulFiles(unfiltered) : new ParquetFileFormat();
        LogicalRelation made = LogicalRelation$.MODULE$.apply(
            new HadoopFsRelation(new Files(path(table), columns, values, held), columns, data, Option.empty(), format, CaseInsensitiveMap$.MODULE$.apply(all), session), false);
        return metadata ? (LogicalPlan) made.withMetadataColumns().transformExpressions(new WithoutRowIndex()) : made;
    }

    /**
     * The columns of a frame under other names.  The metadata of each field of `columns` says `from` which column it is, and `as` its metadata where that is another;
     * a field without is the next of `computed`, which are Columns by their names.
     */
    public Dataset project(org.apache.spark.sql.classic.Dataset frame, StructType columns, java.util.List computed) {
        java.util.Map held = new java.util.HashMap();
        for (scala.collection.Iterator all = frame.queryExecution().analyzed().output().iterator(); all.hasNext(); ) {
            Attribute one = (Attribute) all.next();
            held.put(one.name(), one);
        }
        java.util.List out = new ArrayList();
        java.util.Iterator others = computed.iterator();
        StructField[] fields = columns.fields();
        for (int n = 0; n < fields.length; n++) {
            Metadata said = fields[n].metadata();
            if (!said.contains("from")) {
                out.add(others.next());
                continue;
            }
            Expression source = (Expression) held.get(said.getString("from"));
            Option marks = said.contains("as") ? Option.apply(said.getMetadata("as")) : Option.empty();
            if (marks.isDefined() || !((Attribute) source).name().equals(fields[n].name()))
                source = new Alias(source, fields[n].name(), NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$, marks, (Seq) Nil$.MODULE$);
            out.add(ExpressionUtils.column(source));
        }
        return frame.select(CollectionConverters.asScala(out).toSeq());
    }

    /**
     * The first rows of a frame, or all where `first` is negative.  Where texts and the like make some rows longer than others, a last column has the sum of their bytes
     * from a task's first row on, and after the row with which it is above `most` the task gives no more.  Not where all that is read is `small`, since it takes longer.
     */
    public Dataset within(org.apache.spark.sql.classic.Dataset frame, int first, long most, long small) {
        LogicalPlan plan = frame.queryExecution().analyzed();
        java.util.List out = new ArrayList();
        Expression size = null;
        for (scala.collection.Iterator all = plan.output().iterator(); all.hasNext(); ) {
            Attribute one = (Attribute) all.next();
            out.add(one);
            size = sum(size, bytes(one, one.dataType()));
        }
        if (size == null || bytesRead(frame.queryExecution().optimizedPlan()) <= small) return first < 0 ? frame : frame.limit(first);
        plansLivingRows(frame.sparkSession().extensions());
        Expression sums = new Literal(new AtomicLong(), new ObjectType(AtomicLong.class));
        Expression summed = new Invoke(sums, "addAndGet", DataTypes.LongType, Living.one(size), (Seq) Nil$.MODULE$, false, false, false);
        Alias last = new Alias(summed, Living.BYTES, NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$, Option.empty(), (Seq) Nil$.MODULE$);
        out.add(last);
        Expression few = new LessThanOrEqual(new Subtract(last.toAttribute(), size), new Literal(new Long(most), DataTypes.LongType));
        if (first >= 0) plan = (LogicalPlan) Limit$.MODULE$.apply(new Literal(new Integer(first), DataTypes.IntegerType), plan);
        LogicalPlan within = new Filter(few, new Project(CollectionConverters.asScala(out).toSeq(), plan));
        return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(frame.sparkSession(), within);
    }

    /** The bytes that a plan reads, by Spark's estimate.  It has none of rows that are made, such as those of `range`; rows of the driver's, as of `createDataFrame`, count nothing. */
    private static double bytesRead(LogicalPlan plan) {
        double size = 0;
        for (scala.collection.Iterator leaves = plan.collectLeaves().iterator(); leaves.hasNext(); ) {
            LogicalPlan leaf = (LogicalPlan) leaves.next();
            if (!(leaf instanceof LogicalRDD && isOfDriver(((LogicalRDD) leaf).rdd()))) size += leaf instanceof Range ? Double.MAX_VALUE : leaf.stats().sizeInBytes().doubleValue();
        }
        return size;
    }

    private static boolean isOfDriver(RDD rows) {
        while (rows.dependencies().nonEmpty()) rows = ((Dependency) rows.dependencies().head()).rdd();
        return rows instanceof ParallelCollectionRDD;
    }

    /** The bytes of a value of a type whose values are not equally long, about; null for another type. */
    private static Expression bytes(Expression value, DataType type) {
        if (type instanceof StringType || type instanceof BinaryType) return known(new OctetLength(value));
        if (type instanceof MapType) {
            DataType keys = new ArrayType(((MapType) type).keyType(), false), values = new ArrayType(((MapType) type).valueType(), true);
            return sum(bytes(new MapKeys(value), keys), bytes(new MapValues(value), values));
        }
        if (type instanceof StructType) {
            Expression size = null;
            StructField[] fields = ((StructType) type).fields();
            for (int n = 0; n < fields.length; n++) size = sum(size, bytes(new GetStructField(value, n, Option.empty()), fields[n].dataType()));
            return size;
        }
        if (UnsafeRow.isFixedLength(type) || type instanceof DecimalType) return null;
        DataType element = type instanceof ArrayType ? ((ArrayType) type).elementType() : null;
        if (element instanceof StringType) return known(new OctetLength(new ArrayJoin(value, new Literal(UTF8String.EMPTY_UTF8, element))));
        if (element != null && UnsafeRow.isFixedLength(element)) return new Multiply(known(new Size(value)), new Literal(new Long(8), DataTypes.LongType));
        return Cast.canCast(type, DataTypes.StringType) ? known(new OctetLength(Cast$.MODULE$.apply(value, DataTypes.StringType, Option.empty(), false))) : null;
    }

    private static Expression known(Expression size) {
        Expression[] both = {Cast$.MODULE$.apply(size, DataTypes.LongType, Option.empty(), false), new Literal(new Long(0), DataTypes.LongType)};
        return new Coalesce(CollectionConverters.asScala(Arrays.asList(both)).toSeq());
    }

    private static Expression sum(Expression one, Expression other) { return one == null ? other : other == null ? one : new Add(one, other); }

    /** Makes `Living` the first strategy of sessions with these extensions, since delta-spark's plans all scans of files; the last one where this Spark is built otherwise. */
    private static void plansLivingRows(SparkSessionExtensions extensions) {
        if (!KNOWN.add(extensions)) return;
        try {
            java.lang.reflect.Field strategies = SparkSessionExtensions.class.getDeclaredField("plannerStrategyBuilders");
            strategies.setAccessible(true);
            ((scala.collection.mutable.Buffer) strategies.get(extensions)).prepend(new MakeLiving());
        } catch (ReflectiveOperationException e) {
            extensions.injectPlannerStrategy(new MakeLiving());
        }
    }

    /** A path as Spark lists it: one on the local disk has an empty authority (`file:///`). */
    private static Path path(String uri) {
        java.net.URI parsed = java.net.URI.create(uri);
        return "file".equals(parsed.getScheme()) ? new Path("file", "", parsed.getPath()) : new Path(parsed);
    }

    /** Numbers for `at`: in each task, or where they are more than `most` bytes as a broadcast, whose every look at its value takes a lock. */
    public Object numbers(JavaSparkContext context, byte[] bytes, int most) {
        UnsafeArrayData numbers = UnsafeArrayData.fromPrimitiveArray(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length / 8, 8);
        return bytes.length <= most ? numbers : context.broadcast(numbers);
    }

    /** The number at a place among them.  Spark does not fold the call that gives all of them, since its type is a class. */
    public Expression at(Object numbers, Expression place) {
        Seq none = (Seq) Nil$.MODULE$;
        Expression held = new Literal(numbers, new ObjectType(numbers instanceof Broadcast ? Broadcast.class : UnsafeArrayData.class));
        Expression all = numbers instanceof Broadcast ? new Invoke(held, "value", new ObjectType(UnsafeArrayData.class), none, none, false, false, true) : held;
        return new Invoke(all, "getLong", DataTypes.LongType, Living.one(place), none, false, false, true);
    }

    /** For which rows of a stream of Arrow, whose columns are `columns`, a condition is true: a bit for each, the lowest of a byte first. */
    public byte[] meeting(Expression condition, Seq columns, byte[] stream) throws IOException {
        BasePredicate predicate = Predicate.create(condition, columns);
        predicate.initialize(0);
        BitSet met = new BitSet();
        int at = 0;
        BufferAllocator memory = ArrowUtils$.MODULE$.rootAllocator().newChildAllocator("rowlock", 0, Long.MAX_VALUE);
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), memory);
        try {
            while (reader.loadNextBatch()) {
                java.util.List vectors = reader.getVectorSchemaRoot().getFieldVectors();
                ColumnVector[] held = new ColumnVector[vectors.size()];
                for (int n = 0; n < held.length; n++) held[n] = new ArrowColumnVector((FieldVector) vectors.get(n));
                java.util.Iterator rows = new ColumnarBatch(held, reader.getVectorSchemaRoot().getRowCount()).rowIterator();
                for (; rows.hasNext(); at++) if (predicate.eval((InternalRow) rows.next())) met.set(at);
            }
        } finally {
            reader.close();
            memory.close();
        }
        return Arrays.copyOf(met.toByteArray(), (at + 7) / 8);
    }
}
