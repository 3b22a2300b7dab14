// Reads of Delta tables in plans.  Spark's own Janino compiles this file at run time (see compiled.py).
//
// An analyzed plan names a table and its columns, not its files: a `Scan`.  When a query is optimized, `Follow` puts Rowlock's plan of the newest version in
// its place, so that DataFrames and views show what is committed when they run.  Janino knows no lambdas and infers no generics (see rowlock.java).
package rowlock;

import java.util.HashMap;
import java.util.Objects;
import java.util.WeakHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases$;
import org.apache.spark.sql.catalyst.analysis.EliminateView$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.optimizer.EliminateResolvedHint$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The files of a table which are not chosen yet.  Two are equal where they read the same version of the same table: by that Spark finds cached rows. */
public class Scan implements FileIndex {
    /** The table as Rowlock opens it. */
    public final String table;
    /** Its folder as Spark reads it. */
    public final String root;
    /** The version that the reader named; null reads the newest. */
    public final String version;
    /** What the table's columns were when the plan was analyzed, for Python to compare. */
    public final String columns;

    /** The columns by which it was partitioned then. */
    public final String[] partitions;
    /** What was said of it then, null where nothing was. */
    public final String comment;

    public Scan(String table, String root, String version, String columns, String[] partitions, String comment) {
        this.partitions = partitions;
        this.comment = comment;
        this.table = table;
        this.root = root;
        this.version = version;
        this.columns = columns;
    }

    public String table() { return table; }
    public String version() { return version; }

    /** A named version has a folder of its own here, as its name in delta-spark is: what is written into the table changes no cached rows of it. */
    public Seq rootPaths() {
        java.util.List paths = new java.util.ArrayList();
        paths.add(new Path(version == null ? root : root + "@v" + version));
        return CollectionConverters.asScala(paths).toSeq();
    }
    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        throw new IllegalStateException("The scan of " + table + " was planned without rowlock.Follow, which chooses its files: is the rule excluded from Spark's optimizer?");
    }
    public String[] inputFiles() { return new String[0]; }
    public void refresh() { }
    public long sizeInBytes() { return Long.MAX_VALUE; }
    public StructType partitionSchema() { return new StructType(); }
    public Option metadataOpsTimeNs() { return Option.empty(); }
    public String toString() { return "Rowlock[" + (version == null ? "" : "version=" + version + ", ") + table + "]"; }
    public boolean equals(Object other) { return other instanceof Scan && root.equals(((Scan) other).root) && Objects.equals(version, ((Scan) other).version); }
    public int hashCode() { return Objects.hash(new Object[] { root, version }); }
}

/** Parquet files of a table that tracks its rows: `_metadata` also says which row it is, which version last changed it, and what its file has of both. */
public class TrackedFiles extends ParquetFileFormat {
    public Seq metadataSchemaFields() {
        java.util.List fields = new java.util.ArrayList(CollectionConverters.asJava(super.metadataSchemaFields()));
        String[] names = new String[] { "base_row_id", "default_row_commit_version", "row_id", "row_commit_version" };
        for (int n = 0; n < names.length; n++) fields.add(new StructField(names[n], DataTypes.LongType, true, Metadata.empty()));
        return CollectionConverters.asScala(fields).toSeq();
    }
}

/** What Python calls. */
public class Scans {
    /** By each of them a condition may pass one more join. */
    private static final int MOST_PUSHES = 10;

    /** The plan of a table's rows. */
    public static LogicalPlan plan(SparkSession session, String table, String root, String version, String columns, String schema, java.util.List partitions,
            String comment, boolean tracked) {
        StructType type = (StructType) StructType.fromJson(schema);
        Map none = (Map) scala.collection.immutable.Map$.MODULE$.empty();
        ParquetFileFormat format = tracked ? new TrackedFiles() : new ParquetFileFormat();
        return LogicalRelation$.MODULE$.apply(
            new HadoopFsRelation(new Scan(table, root, version, columns, (String[]) partitions.toArray(new String[0]), comment), new StructType(), type, Option.empty(), format, none, session), false);
    }

    /** The plan of a DataFrame with the files of this moment, and with the rows that Spark has cached; null where it has no scan to choose files for. */
    public static LogicalPlan pinned(Dataset frame) {
        org.apache.spark.sql.classic.Dataset rows = (org.apache.spark.sql.classic.Dataset) frame;
        if (!has(rows.queryExecution().analyzed())) return null;
        org.apache.spark.sql.classic.Dataset anew = org.apache.spark.sql.classic.Dataset.ofRows(rows.sparkSession(), rows.queryExecution().analyzed());
        LogicalPlan plan = anew.queryExecution().withCachedData();
        java.util.Map conditions = new HashMap();
        gather(pushed(plan), null, conditions);
        java.util.Iterator parts = CollectionConverters.asJava(plan.subqueriesAll()).iterator();
        while (parts.hasNext()) gather((LogicalPlan) parts.next(), null, conditions);
        return opened(plan, rows.sparkSession(), new HashMap(), conditions);
    }

    /** The plan with its conditions right above the scans that they are of.  The names that a caller may give to parts of it (`s.id`) are gone. */
    private static LogicalPlan pushed(LogicalPlan plan) {
        LogicalPlan before = null;
        LogicalPlan pushed = Open.finished((LogicalPlan) EliminateView$.MODULE$.apply(plan));
        for (int times = 0; times < MOST_PUSHES && !pushed.fastEquals(before); times++) {
            before = pushed;
            pushed = (LogicalPlan) PushDownPredicates$.MODULE$.apply(before);
        }
        return pushed;
    }

    /** Finds the condition above each scan, by the id of the scan's first column; null where a plan has two scans with this id. */
    private static void gather(LogicalPlan plan, Expression above, java.util.Map found) {
        if (scan(plan) != null) found.put(id(plan), found.containsKey(id(plan)) ? null : above);
        java.util.Iterator children = CollectionConverters.asJava(plan.children()).iterator();
        while (children.hasNext()) gather((LogicalPlan) children.next(), plan instanceof Filter ? ((Filter) plan).condition() : null, found);
    }

    public static Object id(LogicalPlan scan) { return scan.output().isEmpty() ? null : ((AttributeReference) scan.output().apply(0)).exprId(); }

    public static boolean has(LogicalPlan plan) {
        if (among(plan)) return true;
        java.util.Iterator parts = CollectionConverters.asJava(plan.subqueriesAll()).iterator();
        while (parts.hasNext()) if (among((LogicalPlan) parts.next())) return true;
        return false;
    }

    private static boolean among(LogicalPlan plan) {
        java.util.Iterator leaves = CollectionConverters.asJava(plan.collectLeaves()).iterator();
        while (leaves.hasNext()) if (scan(leaves.next()) != null) return true;
        return false;
    }

    /** The scan that a node is; null where it is none. */
    public static Scan scan(Object node) {
        if (!(node instanceof LogicalRelation) || !(((LogicalRelation) node).relation() instanceof HadoopFsRelation)) return null;
        FileIndex files = ((HadoopFsRelation) ((LogicalRelation) node).relation()).location();
        return files instanceof Scan ? (Scan) files : null;
    }

    public static LogicalPlan opened(LogicalPlan plan, SparkSession session, java.util.Map versions, java.util.Map conditions) {
        return (LogicalPlan) plan.transformDownWithSubqueries(new Open(session, versions, conditions));
    }
}

/**
 * A scan with its files, without those in which the condition right above is true of no row; or the one in `conditions`, by the id of the scan's first column.
 * `versions` holds the version of each table that the query reads: one, however often the query names the table.
 */
public class Open extends scala.runtime.AbstractPartialFunction {
    private final SparkSession session;
    private final java.util.Map versions;
    private final java.util.Map conditions;

    public Open(SparkSession session, java.util.Map versions, java.util.Map conditions) {
        this.session = session;
        this.versions = versions;
        this.conditions = conditions;
    }

    public boolean isDefinedAt(Object node) { return Scans.scan(node) != null || node instanceof Filter && Scans.scan(((Filter) node).child()) != null; }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        Expression condition = node instanceof Filter ? ((Filter) node).condition() : null;
        LogicalRelation at = (LogicalRelation) (condition == null ? node : ((Filter) node).child());
        Scan scan = Scans.scan(at);
        Expression above = condition == null ? (Expression) conditions.get(Scans.id(at)) : condition;
        Expression known = above == null || SubqueryExpression.hasSubquery(above) ? null : (Expression) above.transform(new ListOfSet());
        boolean more = at.output().size() > at.relation().schema().size();
        String hidden = more ? String.join(",", ((StructType) ((AttributeReference) at.output().last()).dataType()).fieldNames()) : null;
        Object[] asked = new Object[] { session, scan.table, scan.version, scan.columns, hidden, versions, known };
        LogicalPlan rows = finished((LogicalPlan) Bridge.call("scan", asked));
        java.util.List named = new java.util.ArrayList();
        for (int n = 0; n < at.output().size(); n++) {
            AttributeReference as = (AttributeReference) at.output().apply(n);
            Seq nothing = (Seq) scala.collection.immutable.Nil$.MODULE$;
            named.add(new Alias((AttributeReference) rows.output().apply(n), as.name(), as.exprId(), nothing, Option.apply(as.metadata()), nothing));
        }
        LogicalPlan opened = new Project(CollectionConverters.asScala(named).toSeq(), rows);
        return condition == null ? opened : new Filter(condition, opened);
    }

    /** The plan without what the optimizer's first rules remove: they have run when scans are opened. */
    static LogicalPlan finished(LogicalPlan plan) {
        LogicalPlan plain = (LogicalPlan) EliminateSubqueryAliases$.MODULE$.apply(plan);
        return (LogicalPlan) ReplaceExpressions$.MODULE$.apply((LogicalPlan) EliminateResolvedHint$.MODULE$.apply(plain));
    }
}

/** Values that the optimizer has put into a set as the list that they were; of very many none, since finding files by them takes longer than they save. */
class ListOfSet extends scala.runtime.AbstractPartialFunction {
    private static final int MOST_VALUES = 1000;

    public boolean isDefinedAt(Object node) { return node instanceof InSet && ((InSet) node).hset().size() <= MOST_VALUES; }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        Expression child = ((InSet) node).child();
        java.util.List values = new java.util.ArrayList();
        java.util.Iterator set = CollectionConverters.asJava(((InSet) node).hset()).iterator();
        while (set.hasNext()) values.add(new Literal(set.next(), child.dataType()));
        return new In(child, CollectionConverters.asScala(values).toSeq());
    }
}

/** A rule of one session. */
public abstract class SessionRule extends Rule {
    public SparkSession session;
}

/** What SparkSessionExtensions takes: makes a rule for a session. */
public abstract class MakeRule implements scala.Function1 {
    public abstract SessionRule rule();

    public Object apply(Object session) {
        SessionRule made = rule();
        made.session = (SparkSession) session;
        return made;
    }
}

/** While a query is optimized: each scan gets its files.  Subqueries are optimized one by one; what tells that they are of one query is Spark's tracker of it. */
public class Follow extends SessionRule {
    private static final java.util.Map QUERIES = java.util.Collections.synchronizedMap(new WeakHashMap());

    public TreeNode apply(TreeNode plan) {
        return Scans.has((LogicalPlan) plan) ? Scans.opened((LogicalPlan) plan, session, versions(), new HashMap()) : plan;
    }

    private static java.util.Map versions() {
        Option query = QueryPlanningTracker.get();
        if (query.isEmpty()) return new HashMap();
        java.util.Map found = (java.util.Map) QUERIES.get(query.get());
        if (found == null) QUERIES.put(query.get(), found = new HashMap());
        return found;
    }
}

public class MakeFollow extends MakeRule {
    public SessionRule rule() { return new Follow(); }
}
