// Where Spark asks Rowlock.  Spark's own Janino compiles this file at run time, against the Spark that is installed (see compiled.py).
//
// The classes recognise what may concern a Delta table and forward it to one Python callable (Bridge, in streams.java); every decision is Python's.  They hold
// no state but that callable.  Janino knows no lambdas and infers no generics, so the types are raw and the rules are classes.
package rowlock;

import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.analysis.BindParameters$;
import org.apache.spark.sql.catalyst.analysis.ParameterizedQuery;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.catalog.UnresolvedCatalogRelation;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ParsedStatement;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.command.LeafRunnableCommand;
import org.apache.spark.sql.execution.datasources.CreateTable;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.SchemaRelationProvider;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** A Delta table as a relation of Spark's first data source interface.  It is never scanned: `Reading` puts Rowlock's own scan in its place. */
public class Relation extends BaseRelation {
    public final SQLContext context;
    public final Map options;
    private final String given;
    private LogicalPlan first;
    private StructType columns;

    public Relation(SQLContext context, Map options, StructType given) {
        this.context = context;
        this.options = options;
        this.given = given == null ? null : given.json();
    }

    /** The plan of the table's rows, asked anew each time: Spark's catalog keeps relations.  The first time it is the one that told the columns. */
    public synchronized LogicalPlan plan() {
        LogicalPlan found = first;
        first = null;
        return found != null ? found : (LogicalPlan) Bridge.call("read", new Object[] { context.sparkSession(), CollectionConverters.asJava(options), given });
    }

    /** What Spark gets after a write, and asks for its columns alone: nothing is read for it, least of all by the options of a writer. */
    public synchronized Relation of(StructType written) {
        columns = written;
        return this;
    }

    public SQLContext sqlContext() { return context; }
    public synchronized StructType schema() {
        if (columns == null) columns = (first = plan()).schema();
        return columns;
    }
}

/** format("rowlock").  It takes no INSERT: statements are caught before Spark would hand their rows to a relation. */
public class DefaultSource extends StreamTable implements RelationProvider, SchemaRelationProvider, CreatableRelationProvider, StreamSinkProvider, DataSourceRegister {
    public String shortName() { return "rowlock"; }
    public boolean supportsDataType(DataType type) { return true; }
    public BaseRelation createRelation(SQLContext context, Map options) { return new Relation(context, options, null); }
    public BaseRelation createRelation(SQLContext context, Map options, StructType schema) { return new Relation(context, options, schema); }
    public BaseRelation createRelation(SQLContext context, SaveMode mode, Map options, Dataset rows) {
        Bridge.call("save", new Object[] { mode.name(), CollectionConverters.asJava(Bridge.spelled(options)), rows });
        return new Relation(context, options, null).of(rows.schema());
    }
    public Sink createSink(SQLContext context, Map options, Seq partitions, OutputMode mode) { return new StreamSink(context, options, partitions, mode); }
}

/** Where a stream writes by format name; each batch is one call of Python. */
public class StreamSink implements Sink {
    private final Map options;
    private final Seq partitions;
    private final String mode;

    public StreamSink(SQLContext context, Map options, Seq partitions, OutputMode mode) {
        this.options = Bridge.spelled(options);
        this.partitions = partitions;
        this.mode = mode.toString();
        Bridge.call("sink", new Object[] { context.sparkSession(), CollectionConverters.asJava(this.options), CollectionConverters.asJava(partitions), this.mode });
    }

    public void addBatch(long number, Dataset rows) {
        Bridge.call("batch", new Object[] { rows, Long.valueOf(number), CollectionConverters.asJava(options), CollectionConverters.asJava(partitions), mode });
    }
    public String toString() { return "Rowlock"; }
}

/** format("delta"), and the tables in the catalog whose provider has this name. */
public class Delta extends DefaultSource {
    public String shortName() { return "delta"; }
}

/** Before anything is resolved: a statement on a Delta table becomes a `Statement`, or is refused; an old version of a table, or one named by its path, becomes its plan. */
public class Statements extends SessionRule {
    public TreeNode apply(TreeNode plan) {
        if (Bridge.isOwn(session)) return plan;
        LogicalPlan top = (LogicalPlan) plan;
        if (top.analyzed()) return plan;
        if (top instanceof Statement) return plan;
        LogicalPlan command = bound(top);
        if (isCommand(command)) {
            LogicalPlan ours = claimed(command);
            if (ours != command) return ours;
        } else {
            if (top instanceof Union) top = inserts(top);
            below(top);
        }
        return top.transformUpWithSubqueries(new Travel(session));
    }

    /** A command with the values of its parameters, which Spark 4.0 binds later than this. */
    private static LogicalPlan bound(LogicalPlan plan) {
        return plan instanceof ParameterizedQuery && isCommand(plan.children().head()) ? BindParameters$.MODULE$.apply(plan) : plan;
    }

    /** INSERT is no command before it is resolved, and what Spark 4.0 makes of saveAsTable is none either. */
    static boolean isCommand(Object node) { return node instanceof Command || node instanceof ParsedStatement || node instanceof CreateTable; }

    /** The statement that Rowlock carries out in place of a command; the command itself where it is Spark's. */
    private LogicalPlan claimed(LogicalPlan given) {
        LogicalPlan asked = given instanceof InsertIntoStatement ? ((InsertIntoStatement) given).table() : given; // which is no child of it
        boolean computed = asked.containsPattern(TreePattern.PLAN_WITH_UNRESOLVED_IDENTIFIER());
        LogicalPlan command = computed ? (LogicalPlan) Bridge.call("identified", new Object[] { session, given }) : given;
        Object schema = Bridge.call("claim", new Object[] { session, command, Boolean.TRUE });
        return schema == null ? given : new Statement(session, command, (StructType) schema);
    }

    /** FROM ... INSERT ... INSERT ...: Spark's parser makes a union of the INSERTs, and Spark runs them one after the other. */
    private LogicalPlan inserts(LogicalPlan union) {
        java.util.List found = new java.util.ArrayList(CollectionConverters.asJava(union.children()));
        for (int n = 0; n < found.size(); n++) if (isCommand(found.get(n)) && !(found.get(n) instanceof Statement)) found.set(n, claimed((LogicalPlan) found.get(n)));
        return (LogicalPlan) union.withNewChildren(CollectionConverters.asScala(found).toSeq());
    }

    /** Commands that lie within a plan. */
    private void below(LogicalPlan node) {
        if (node.analyzed()) return;
        java.util.Iterator children = CollectionConverters.asJava(node.children()).iterator();
        while (children.hasNext()) {
            LogicalPlan child = (LogicalPlan) children.next();
            if (isCommand(child) && !(child instanceof Statement)) Bridge.call("claim", new Object[] { session, child, Boolean.FALSE });
            below(child);
        }
    }
}

/** VERSION AS OF and TIMESTAMP AS OF, names such as delta.`/path`, tables with options of a reader, and table_changes. */
public class Travel extends scala.runtime.AbstractPartialFunction {
    private final SparkSession session;
    public Travel(SparkSession session) { this.session = session; }
    public boolean isDefinedAt(Object node) {
        if (node instanceof RelationTimeTravel) return true;
        if (node instanceof UnresolvedTableValuedFunction) return ((String) ((UnresolvedTableValuedFunction) node).name().last()).toLowerCase().startsWith("table_changes");
        if (!(node instanceof UnresolvedRelation)) return false;
        if (!((UnresolvedRelation) node).options().isEmpty() && !((UnresolvedRelation) node).isStreaming()) return true;
        Seq parts = ((UnresolvedRelation) node).multipartIdentifier();
        return parts.size() == 2 && ("delta".equalsIgnoreCase((String) parts.apply(0)) || "rowlock".equalsIgnoreCase((String) parts.apply(0)));
    }
    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        Object plan = Bridge.call("relation", new Object[] { session, node });
        return plan == null ? node : plan;
    }
}

/** While names are resolved: the relation of a Delta table becomes Rowlock's plan, with the columns that the table has now. */
public class Reading extends SessionRule {
    public TreeNode apply(TreeNode plan) { return ((LogicalPlan) plan).transformUpWithSubqueries(new Read(session)); }
}

public class Read extends scala.runtime.AbstractPartialFunction {
    private final SparkSession session;
    public Read(SparkSession session) { this.session = session; }
    public boolean isDefinedAt(Object node) {
        if (node instanceof ResolvedTable) return Described.isAbout(((ResolvedTable) node).table());
        if (node instanceof StreamingRelation) return isUnfixed(((StreamingRelation) node).dataSource());
        return node instanceof LogicalRelation && ((LogicalRelation) node).relation() instanceof Relation;
    }

    /** Whether a stream is one of ours that is not told its columns: it takes those of its plan, so that it does not read others when it starts. */
    private static boolean isUnfixed(DataSource source) {
        Option columns = source.userSpecifiedSchema();
        return (columns.isEmpty() || ((StructType) columns.get()).isEmpty()) && StreamTable.class.isAssignableFrom(source.providingClass());
    }

    private static LogicalPlan fixed(StreamingRelation node) {
        DataSource given = node.dataSource();
        DataSource source = given.copy(given.sparkSession(), given.className(), given.paths(), Option.apply(node.schema()), given.partitionColumns(), given.bucketSpec(),
            given.options(), given.catalogTable(), given.userSpecifiedStreamingSourceName());
        return node.copy(source, node.sourceName(), node.output(), node.sourceIdentifyingName());
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        if (node instanceof StreamingRelation) return fixed((StreamingRelation) node);
        if (node instanceof ResolvedTable) {
            ResolvedTable found = (ResolvedTable) node;
            return found.copy(found.catalog(), found.identifier(), new Described(session, ((V1Table) found.table()).v1Table()), found.outputAttributes());
        }
        Option entry = ((LogicalRelation) node).catalogTable();
        CatalogTable now = entry.isEmpty() ? null : moved((CatalogTable) entry.get());
        if (now != null) return new UnresolvedCatalogRelation(now, CaseInsensitiveStringMap.empty(), false); // resolved anew by the next round of this batch
        LogicalPlan plan = ((Relation) ((LogicalRelation) node).relation()).plan();
        return entry.isEmpty() ? plan : plan.transformUp(new Listed(entry));
    }

    /** The catalog's entry of a name that names another table now, null where it is the same: Spark keeps a relation for each name in each session. */
    private CatalogTable moved(CatalogTable kept) {
        SessionCatalog catalog = session.sessionState().catalog();
        CatalogTable now;
        try {
            now = catalog.getTableMetadata(kept.identifier());
        } catch (Exception gone) {
            return null; // the name went since Spark found it
        }
        if (now.storage().locationUri().equals(kept.storage().locationUri()) && now.provider().equals(kept.provider())) return null;
        catalog.invalidateCachedTable(kept.identifier());
        return now;
    }
}

/** A Delta table in the catalog with the columns and the comment that its log says, for `spark.catalog`: the catalog's entry says none. */
public class Described extends V1Table {
    private final SparkSession session;
    private LogicalPlan rows;

    public Described(SparkSession session, CatalogTable entry) {
        super(entry);
        this.session = session;
    }

    public static boolean isAbout(Table table) {
        if (table.getClass() != V1Table.class) return false;
        CatalogTable entry = ((V1Table) table).v1Table();
        return entry.schema().isEmpty() && entry.provider().isDefined() && "delta rowlock".contains(((String) entry.provider().get()).toLowerCase());
    }

    private synchronized LogicalPlan rows() {
        java.util.Map path = java.util.Collections.singletonMap("path", new org.apache.hadoop.fs.Path(v1Table().location()).toString());
        if (rows == null) rows = (LogicalPlan) Bridge.call("read", new Object[] { session, path, null });
        return rows;
    }

    public StructType schema() { return rows().schema(); }
    public Column[] columns() { return CatalogV2Util.structTypeToV2Columns(schema(), false); }
    public java.util.Map properties() {
        java.util.Map found = new java.util.HashMap(super.properties());
        String comment = Scans.scan(rows()).comment;
        if (comment != null) found.put("comment", comment);
        return found;
    }
    public Transform[] partitioning() {
        String[] names = Scans.scan(rows()).partitions;
        Transform[] found = new Transform[names.length];
        for (int n = 0; n < names.length; n++) found[n] = Expressions.identity("`" + names[n].replace("`", "``") + "`");
        return found;
    }
}

/** The catalog's entry of a table for its scan: Spark's refreshTable, which streams call too, demands one of every relation. */
public class Listed extends scala.runtime.AbstractPartialFunction {
    private final Option entry;
    public Listed(Option entry) { this.entry = entry; }
    public boolean isDefinedAt(Object node) { return node instanceof LogicalRelation && ((LogicalRelation) node).catalogTable().isEmpty(); }
    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        LogicalRelation scan = (LogicalRelation) node;
        return new LogicalRelation(scan.relation(), scan.output(), entry, scan.isStreaming(), scan.stream());
    }
}

/** After everything is resolved: each command that is not known to be harmless is shown to Python, which lets it pass or refuses it. */
public class Guard extends scala.runtime.AbstractFunction1 {
    private final SparkSession session;
    public Guard(SparkSession session) { this.session = session; }
    public Object apply(Object plan) {
        if (!Bridge.isOwn(session)) look((LogicalPlan) plan);
        return scala.runtime.BoxedUnit.UNIT;
    }

    private void look(LogicalPlan node) {
        if (node.analyzed()) return;
        String name = node.getClass().getName();
        boolean writes = Statements.isCommand(node) || name.indexOf(".WriteToStream") >= 0;
        if (writes && !(node instanceof Statement) && !Bridge.harmless.contains(name)) Bridge.call("check", new Object[] { session, node });
        java.util.Iterator children = CollectionConverters.asJava(node.children()).iterator();
        while (children.hasNext()) look((LogicalPlan) children.next());
    }
}

/** What SparkSessionExtensions takes: makers of the rules, by the session. */
public class MakeStatements extends MakeRule {
    public SessionRule rule() { return new Statements(); }
}
public class MakeReading extends MakeRule {
    public SessionRule rule() { return new Reading(); }
}
public class MakeGuard implements scala.Function1 {
    public Object apply(Object session) { return new Guard((SparkSession) session); }
}
public class MakeParser implements scala.Function2 {
    public Object apply(Object session, Object next) { return new Parser((SparkSession) session, (ParserInterface) next); }
}

/** Spark's parser, with the statements before it that only Delta has.  Everything else, parameters too, goes to Spark's own. */
public class Parser implements ParserInterface {
    public final SparkSession session;
    private final ParserInterface inner;
    private boolean complete;
    static final java.util.regex.Pattern OWN = java.util.regex.Pattern.compile(
        "(?is)(?:\\s++|/\\*(?:[^*]++|\\*(?!/))*+\\*/|--[^\\n]*+\\n)*+(OPTIMIZE|VACUUM|RESTORE|DESC(RIBE)?\\s+(HISTORY|DETAIL)|CONVERT|GENERATE|REORG|CREATE|REPLACE|ALTER)\\b.*");

    public Parser(SparkSession session, ParserInterface next) {
        this.session = session;
        this.inner = next;
    }

    /**
     * Spark's own parser.  Before it first parses for its session, the session's analyzer gets the rule for statements, where it has none: Spark passes over
     * the injected hint rules where Hive's catalog is configured.
     */
    private ParserInterface next() {
        if (!complete) {
            complete = true;
            complete(session.sessionState().analyzer());
        }
        return inner;
    }

    private void complete(Analyzer analyzer) {
        java.util.List rules = new java.util.ArrayList(CollectionConverters.asJava(analyzer.hintResolutionRules()));
        for (int n = 0; n < rules.size(); n++) if (rules.get(n) instanceof Statements) return;
        rules.add(0, new MakeStatements().apply(session));
        try {
            java.lang.reflect.Field field = Analyzer.class.getDeclaredField("hintResolutionRules");
            field.setAccessible(true);
            field.set(analyzer, CollectionConverters.asScala(rules).toSeq());
        } catch (Exception e) {
            throw new IllegalStateException("Spark's analyzer is built otherwise than Rowlock knows it: " + e, e);
        }
    }

    private LogicalPlan own(String given) {
        if (!OWN.matcher(given).matches() || Bridge.isOwn(session)) return null;
        String text = new org.apache.spark.sql.internal.VariableSubstitution().substitute(given);
        Object schema = Bridge.call("claim_text", new Object[] { session, text });
        return schema == null ? null : new Statement(session, text, (StructType) schema);
    }

    public LogicalPlan parsePlan(String text) throws ParseException {
        LogicalPlan ours = own(text);
        return ours != null ? ours : next().parsePlan(text);
    }
    public LogicalPlan parsePlanWithParameters(String text, ParameterContext values) throws ParseException {
        LogicalPlan ours = own(text);
        return ours != null ? ours : next().parsePlanWithParameters(text, values);
    }
    public Expression parseExpression(String text) throws ParseException { return next().parseExpression(text); }
    public TableIdentifier parseTableIdentifier(String text) throws ParseException { return next().parseTableIdentifier(text); }
    public FunctionIdentifier parseFunctionIdentifier(String text) throws ParseException { return next().parseFunctionIdentifier(text); }
    public Seq parseMultipartIdentifier(String text) throws ParseException { return next().parseMultipartIdentifier(text); }
    public LogicalPlan parseQuery(String text) throws ParseException { return next().parseQuery(text); }
    public StructType parseRoutineParam(String text) throws ParseException { return next().parseRoutineParam(text); }
    public StructType parseTableSchema(String text) throws ParseException { return next().parseTableSchema(text); }
    public DataType parseDataType(String text) throws ParseException { return next().parseDataType(text); }
    public SqlStatementSplitResult splitStatements(String text) { return next().splitStatements(text); }
}

/** A statement that Python runs, once, when Spark runs the command; EXPLAIN shows it and runs nothing. */
public class Statement extends LogicalPlan implements LeafRunnableCommand {
    public final SparkSession session;
    /** The plan that the statement was parsed into, or its text. */
    public final Object what;
    public final StructType schema;
    private final Seq output;
    private Seq patterns;

    public Statement(SparkSession session, Object what, StructType schema) {
        this.session = session;
        this.what = what;
        this.schema = schema;
        this.output = org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(schema);
        Command.$init$(this);
    }

    public Seq run(org.apache.spark.sql.SparkSession running) {
        Object frame = Bridge.call("run", new Object[] { session, what });
        return frame == null ? children() : CollectionConverters.asScala(((Dataset) frame).collectAsList()).toSeq();
    }

    public String nodeName() { return "Rowlock"; }
    public String simpleString(int most) { return "Rowlock " + (what instanceof String ? what : what.getClass().getSimpleName()); }
    public Seq output() { return output; }
    public Seq children() { return (Seq) scala.collection.immutable.Nil$.MODULE$; }
    public TreeNode withNewChildrenInternal(scala.collection.immutable.IndexedSeq children) { return this; }
    public int productArity() { return 3; }  // that of the constructor: Spark copies nodes by it
    public Object productElement(int n) { return n == 0 ? session : n == 1 ? what : schema; }
    public boolean canEqual(Object other) { return other instanceof Statement; }
    public boolean equals(Object other) { return this == other; }
    public int hashCode() { return System.identityHashCode(this); }
    // What Scala's compiler would write for the trait Command.
    public Seq nodePatterns() { return patterns; }
    public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(Seq given) { patterns = given; }
    public Statistics stats() { return Command.stats$(this); }
    public AttributeSet producedAttributes() { return Command.producedAttributes$(this); }
}
