// The names of tables that Spark 4.0 overwrites.  Spark's own Janino compiles this file at run time (see compiled.py and rowlock.java).
package rowlock;

import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Names for saveAsTable of Spark 4.0 (see versions.py).  It drops the table that it overwrites before it makes a plan; under a name with MARK it finds no such
 * table, and its plan is claimed by Rowlock, which takes MARK away.
 */
public class Saved {
    /** In lower case, as Spark makes names. */
    public static final String MARK = " saved by rowlock";

    public static Seq named(SparkSession session, Seq parts) {
        boolean builtin = "builtin".equals(session.sessionState().conf().getConfString("spark.sql.catalog.spark_catalog", "builtin"));
        if (!builtin || Bridge.isOwn(session) || !saves() || isOfAnother(session.sessionState().catalogManager(), parts)) return parts;
        if (!isDelta(session.sessionState().catalog(), parts)) return parts;
        java.util.List marked = new java.util.ArrayList(CollectionConverters.asJava(parts));
        marked.set(marked.size() - 1, marked.get(marked.size() - 1) + MARK);
        return CollectionConverters.asScala(marked).toSeq();
    }

    /** Whether this thread is in saveAsTable. */
    private static boolean saves() {
        StackTraceElement[] callers = new Throwable().getStackTrace();
        for (int n = 0; n < callers.length && n < 16; n++) {
            if (callers[n].getMethodName().equals("saveAsTable") && callers[n].getClassName().equals("org.apache.spark.sql.classic.DataFrameWriter")) return true;
        }
        return false;
    }

    /** Whether a name of one or two parts is one of another catalog than the session's own. */
    private static boolean isOfAnother(CatalogManager catalogs, Seq parts) {
        if (parts.size() > 2) return false;
        return !"spark_catalog".equals(catalogs.currentCatalog().name()) || (parts.size() == 2 && catalogs.isCatalogRegistered((String) parts.apply(0)));
    }

    private static boolean isDelta(SessionCatalog catalog, Seq parts) {
        int size = parts.size();
        if (size > 3 || (size == 3 && !"spark_catalog".equalsIgnoreCase((String) parts.apply(0)))) return false;
        TableIdentifier name = new TableIdentifier((String) parts.last(), size == 1 ? Option.empty() : Option.apply(parts.apply(size - 2)));
        try {
            if (!catalog.tableExists(name)) return false;
            Option provider = catalog.getTableMetadata(name).provider();
            return provider.isDefined() && ("delta".equalsIgnoreCase((String) provider.get()) || "rowlock".equalsIgnoreCase((String) provider.get()));
        } catch (Exception gone) {
            return false; // no such schema, which Spark says itself, or the table went meanwhile
        }
    }
}
