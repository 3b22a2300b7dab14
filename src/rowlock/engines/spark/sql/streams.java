// What Rowlock needs of Java to be read as a stream, and the way to Python.  Spark's own Janino compiles this file at run time (see compiled.py); it stands
// apart from rowlock.java so that it can be loaded on a session without rowlock.enable, beside delta-spark too: it brings no format name.
package rowlock;

import java.util.Arrays;
import java.util.Collection;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import py4j.CallbackClient;
import py4j.ClientServerConnection;
import py4j.PythonClient;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/** The way to Python: one callable, called with the name of what is asked and its arguments. */
public class Bridge {
    public static BiFunction python;
    /** What py4j calls Python with. */
    public static PythonClient client;
    /** Full names of the commands that change no table and no file; Python is not asked about them a second time. */
    public static Set harmless;
    /** Begins the list that stands for an error of Python: then its id, PySpark's name for it, its condition, SQL state, parameters and text, and Spark's own exception. */
    public static final String FAILED = "\u0001rowlock failed";

    public static Object call(String what, Object[] args) {
        Object answer = python.apply(what, Arrays.asList(args));
        Lines.keep(client);
        if (!(answer instanceof java.util.ArrayList)) return answer;
        java.util.List told = (java.util.List) answer;
        if (told.isEmpty() || !FAILED.equals(told.get(0))) return answer;
        Refused refused = new Refused((String) told.get(1), (String) told.get(3), (String) told.get(4), (java.util.Map) told.get(5), (String) told.get(6));
        Platform.throwException(raised(refused, (String) told.get(2), (Throwable) told.get(7)));
        return null;
    }

    /** What is thrown for an error of Python: Spark's own exception where it is one, else one of the class that Spark would raise, as clients of a server know it. */
    private static Throwable raised(Refused refused, String kind, Throwable origin) {
        if (origin != null) {
            origin.addSuppressed(refused);
            return origin;
        }
        if (kind.equals("AnalysisException")) return new RefusedAnalysis(refused);
        if (kind.equals("ParseException")) return new RefusedText(refused);
        if (kind.equals("IllegalArgumentException")) return new RefusedArgument(refused);
        if (kind.equals("UnsupportedOperationException")) return new RefusedUnsupported(refused);
        return kind.equals("SparkRuntimeException") ? new RefusedRows(refused) : refused;
    }

    /** Whether a session is one that Rowlock made for itself: what runs there is Rowlock's own work. */
    public static boolean isOwn(SparkSession session) {
        return "true".equals(session.sessionState().conf().getConfString("spark.rowlock.internal", "false"));
    }

    /** Options as the user spelled them. */
    public static Map spelled(Map options) {
        return options instanceof CaseInsensitiveMap ? ((CaseInsensitiveMap) options).originalMap() : options;
    }
}

/**
 * The connections to Python of threads that the JVM began.  py4j opens one for each such thread and keeps it for ever, and with it a thread of Python: a
 * server begins a thread for each statement.  Those of threads that have ended are closed when the next thread comes.
 */
public class Lines {
    private static final ConcurrentHashMap open = new ConcurrentHashMap();

    public static void keep(PythonClient client) {
        if (client == null) return;
        ClientServerConnection mine = client.getPerThreadConnection();
        if (mine == null || !mine.isInitiatedFromClient() || open.put(Thread.currentThread(), mine) != null) return;
        java.util.Iterator threads = open.keySet().iterator();
        while (threads.hasNext()) {
            Thread thread = (Thread) threads.next();
            if (!thread.isAlive()) close(client, (ClientServerConnection) open.remove(thread));
        }
    }

    private static void close(PythonClient client, ClientServerConnection line) {
        if (line == null) return;
        line.shutdown();
        try {
            java.lang.reflect.Field field = CallbackClient.class.getDeclaredField("connections");
            field.setAccessible(true);
            ((Collection) field.get(client)).remove(line);
        } catch (Exception unknown) {
            // another py4j: a closed connection stays in its list, which costs a few kilobytes
        }
    }
}

/** An error of Python on its way through the JVM; Python raises the original again by its id. */
public class Refused extends RuntimeException implements SparkThrowable {
    public final String id;
    private final String condition;
    private final String state;
    private final java.util.Map parameters;
    public Refused(String id, String condition, String state, java.util.Map parameters, String text) {
        super(text);
        this.id = id;
        this.condition = condition;
        this.state = state;
        this.parameters = parameters;
    }
    public String id() { return id; }
    public String getCondition() { return condition; }
    public String getSqlState() { return state; }
    public java.util.Map getMessageParameters() { return parameters; }
}

/** One that Spark calls an AnalysisException. */
public class RefusedAnalysis extends AnalysisException {
    private final Refused why;
    public RefusedAnalysis(Refused why) {
        super(why.getMessage(), Option.empty(), Option.empty(), Option.apply(why), Option.apply(why.getCondition()),
            (Map) scala.collection.immutable.Map$.MODULE$.empty(), new QueryContext[0], Option.empty(), Option.empty());
        this.why = why;
    }
    public String getSqlState() { return why.getSqlState(); }
    public java.util.Map getMessageParameters() { return why.getMessageParameters(); }
}

/** One that Spark calls a ParseException; its text is not made of a condition, as Spark would have it. */
public class RefusedText extends ParseException {
    private final Refused why;
    public RefusedText(Refused why) {
        super(Option.empty(), CurrentOrigin.get(), "_LEGACY_ERROR_USER_RAISED_EXCEPTION", (Map) scala.collection.immutable.Map$.MODULE$.empty().updated("errorMessage", why.getMessage()));
        addSuppressed(why);
        this.why = why;
    }
    public String getMessage() { return why.getMessage(); }
    public String getCondition() { return why.getCondition(); }
    public String getSqlState() { return why.getSqlState(); }
    public java.util.Map getMessageParameters() { return why.getMessageParameters(); }
}

/** One that Spark calls an IllegalArgumentException. */
public class RefusedArgument extends IllegalArgumentException implements SparkThrowable {
    private final Refused why;
    public RefusedArgument(Refused why) {
        super(why.getMessage(), why);
        this.why = why;
    }
    public String getCondition() { return why.getCondition(); }
    public String getSqlState() { return why.getSqlState(); }
    public java.util.Map getMessageParameters() { return why.getMessageParameters(); }
}

/** One that Spark calls an UnsupportedOperationException. */
public class RefusedUnsupported extends UnsupportedOperationException implements SparkThrowable {
    private final Refused why;
    public RefusedUnsupported(Refused why) {
        super(why.getMessage(), why);
        this.why = why;
    }
    public String getCondition() { return why.getCondition(); }
    public String getSqlState() { return why.getSqlState(); }
    public java.util.Map getMessageParameters() { return why.getMessageParameters(); }
}

/** One that Spark calls a SparkRuntimeException, which makes its own text of a condition of Spark's and takes no other. */
public class RefusedRows extends SparkRuntimeException {
    private final Refused why;
    public RefusedRows(Refused why) {
        super("_LEGACY_ERROR_USER_RAISED_EXCEPTION", (Map) scala.collection.immutable.Map$.MODULE$.empty().updated("errorMessage", why.getMessage()), why, new QueryContext[0], "");
        this.why = why;
    }
    public String getMessage() { return why.getMessage(); }
    public String getCondition() { return why.getCondition(); }
    public String getSqlState() { return why.getSqlState(); }
    public java.util.Map getMessageParameters() { return why.getMessageParameters(); }
}

/** A table as the source of a stream. */
public class StreamTable implements StreamSourceProvider {
    public Tuple2 sourceSchema(SQLContext context, Option given, String name, Map options) {
        Object columns = Bridge.call("stream_columns", new Object[] { context.sparkSession(), CollectionConverters.asJava(Bridge.spelled(options)), json(given) });
        return new Tuple2("rowlock", columns);
    }

    public Source createSource(SQLContext context, String checkpoint, Option given, String name, Map options) {
        SparkSession session = (SparkSession) context.sparkSession();
        Object[] asked = new Object[] { session, CollectionConverters.asJava(Bridge.spelled(options)), json(given), checkpoint };
        return new StreamSource(session, (String) Bridge.call("stream_open", asked));
    }

    private static String json(Option columns) {
        return columns.isEmpty() ? null : ((StructType) columns.get()).json();
    }
}

/** How far a stream has read, as text; Python knows what it says. */
public class StreamOffset extends Offset {
    private final String text;
    public StreamOffset(String text) { this.text = text; }
    public String json() { return text; }
}

/** The source of one query.  All that it knows is kept in Python, under its number. */
public class StreamSource implements Source, SupportsTriggerAvailableNow {
    private final SparkSession session;
    private final String number;

    public StreamSource(SparkSession session, String number) {
        this.session = session;
        this.number = number;
    }

    private Object ask(String what, Object[] values) {
        try {
            return Bridge.call("stream", new Object[] { session, number, what, Arrays.asList(values) });
        } catch (Refused refused) {
            // Who stops a query interrupts its thread, also where that works for Python: by this exception Spark knows that nothing failed.
            String text = String.valueOf(refused.getMessage());
            if (text.contains("InterruptedException") || text.contains("ClosedByInterruptException")) Platform.throwException(new java.io.InterruptedIOException(text));
            throw refused;
        }
    }

    public StructType schema() { return (StructType) ask("columns", new Object[] {}); }
    public Option getOffset() { throw new UnsupportedOperationException("latestOffset is what is to be asked"); }
    /** Python knows the limits by the options; this one only says that there is one. */
    public ReadLimit getDefaultReadLimit() { return ReadLimit.maxFiles(1000); }
    public void prepareForTriggerAvailableNow() { ask("available_now", new Object[] {}); }

    public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
        Object text = ask("latest", new Object[] { start == null ? null : start.json(), Boolean.valueOf(limit instanceof ReadAllAvailable) });
        return text == null ? null : new StreamOffset((String) text);
    }

    public Dataset getBatch(Option start, Offset end) {
        LogicalPlan plan = (LogicalPlan) ask("batch", new Object[] { start.isEmpty() ? null : ((Offset) start.get()).json(), end.json() });
        return org.apache.spark.sql.classic.Dataset.ofRows(session, flowing(plan));
    }

    public void commit(Offset end) { ask("committed", new Object[] { end.json() }); }
    public void stop() { ask("stop", new Object[] {}); }
    public String toString() { return (String) ask("name", new Object[] {}); }

    /** The plan of a batch with its scans marked as those of a stream; what is joined to them, on the right, stays still. */
    public static LogicalPlan flowing(LogicalPlan node) {
        if (node instanceof LogicalRelation) {
            LogicalRelation scan = (LogicalRelation) node;
            return new LogicalRelation(scan.relation(), scan.output(), scan.catalogTable(), true, scan.stream());
        }
        if (node instanceof LocalRelation) {
            LocalRelation rows = (LocalRelation) node;
            return new LocalRelation(rows.output(), rows.data(), true, rows.stream());
        }
        java.util.List children = new java.util.ArrayList(CollectionConverters.asJava(node.children()));
        if (children.isEmpty()) return node;
        int moving = node instanceof Join ? 1 : children.size();
        for (int n = 0; n < moving; n++) children.set(n, flowing((LogicalPlan) children.get(n)));
        return (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(children).toSeq());
    }
}
