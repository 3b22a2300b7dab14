// Data files whose rows have values that the log knows.  Spark's own Janino compiles this file at run time (see compiled.py); only the driver needs it.
package rowlock;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils$;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The files that Spark has listed, each with values of its own, which Spark takes for those of a partition: they cost nothing for a row, and conditions on them skip files. */
public class Files implements FileIndex {
    private final FileIndex listed;
    private final StructType columns;
    /** Rows of these columns by the URI of the file. */
    private final java.util.Map values;

    public Files(FileIndex listed, StructType columns, java.util.Map values) {
        this.listed = listed;
        this.columns = columns;
        this.values = values;
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        java.util.List wanted = new ArrayList();
        for (int n = 0; n < partitionFilters.size(); n++) wanted.add(Predicate.createInterpreted((Expression) ((Expression) partitionFilters.apply(n)).transform(new Bind(columns))));
        java.util.List out = new ArrayList();
        java.util.Iterator folders = CollectionConverters.asJava(listed.listFiles((Seq) Nil$.MODULE$, dataFilters)).iterator();
        while (folders.hasNext()) {
            Seq files = ((PartitionDirectory) folders.next()).files();
            for (int n = 0; n < files.size(); n++) {
                FileStatusWithMetadata file = (FileStatusWithMetadata) files.apply(n);
                InternalRow row = (InternalRow) values.get(uri(file.getPath()));
                if (row == null) throw new IllegalStateException("Spark reads the data file " + file.getPath() + " under another name");
                if (meets(row, wanted)) out.add(new PartitionDirectory(row, CollectionConverters.asScala(java.util.Collections.singletonList(file)).toSeq()));
            }
        }
        return CollectionConverters.asScala(out).toSeq();
    }

    /** As `_metadata.file_path` has it: without the empty authority that listed files of the local disk have. */
    private static String uri(Path path) { return new Path(path.toString()).toUri().toString(); }

    private static boolean meets(InternalRow row, java.util.List wanted) {
        for (int n = 0; n < wanted.size(); n++) if (!((BasePredicate) wanted.get(n)).eval(row)) return false;
        return true;
    }

    public Seq rootPaths() { return listed.rootPaths(); }
    public String[] inputFiles() { return listed.inputFiles(); }
    public void refresh() { listed.refresh(); }
    public long sizeInBytes() { return listed.sizeInBytes(); }
    public StructType partitionSchema() { return columns; }
    public Option metadataOpsTimeNs() { return listed.metadataOpsTimeNs(); }
    public String toString() { return listed.toString(); }
    public boolean equals(Object other) { return other instanceof Files && listed.equals(((Files) other).listed) && values.equals(((Files) other).values); }
    public int hashCode() { return listed.hashCode(); }
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

/** What Python calls. */
public class DataFiles {
    /**
     * The plan of a scan of files, with more columns: those of `values`, which has one row for each file and the file's URI in its last column; and with
     * `metadata` Spark's `_metadata` without the numbers of rows, which Spark gives only once.
     */
    public LogicalPlan scan(LogicalPlan scan, Dataset values, boolean metadata) {
        HadoopFsRelation files = (HadoopFsRelation) ((LogicalRelation) scan.collectLeaves().head()).relation();
        InternalRow[] held = ((org.apache.spark.sql.classic.Dataset) values).queryExecution().executedPlan().executeCollect();
        StructType constants = values.schema();
        java.util.Map rows = new HashMap();
        for (int n = 0; n < held.length; n++) rows.put(held[n].getString(constants.size() - 1), held[n]);
        FileIndex index = new Files(files.location(), constants, rows);
        LogicalRelation made = LogicalRelation$.MODULE$.apply(
            new HadoopFsRelation(index, constants, files.dataSchema(), files.bucketSpec(), files.fileFormat(), files.options(), files.sparkSession()), false);
        return metadata ? (LogicalPlan) made.withMetadataColumns().transformExpressions(new WithoutRowIndex()) : made;
    }

    /** Numbers that every executor gets once. */
    public Broadcast broadcast(JavaSparkContext context, byte[] numbers) {
        return context.broadcast(UnsafeArrayData.fromPrimitiveArray(numbers, Platform.BYTE_ARRAY_OFFSET, numbers.length / 8, 8));
    }

    /** The number at a place among them.  Spark does not fold the call that gives all of them, since its type is a class. */
    public Expression at(Broadcast numbers, Expression place) {
        Expression literal = new Literal(numbers, new ObjectType(Broadcast.class));
        Seq none = (Seq) Nil$.MODULE$;
        Expression all = new Invoke(literal, "value", new ObjectType(UnsafeArrayData.class), none, none, false, false, true);
        return new Invoke(all, "getLong", DataTypes.LongType, CollectionConverters.asScala(java.util.Collections.singletonList(place)).toSeq(), none, false, false, true);
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
