// Delta's settings for `spark.conf`.  Spark's own Janino compiles this file at run time (see compiled.py).
package rowlock;

import org.apache.spark.internal.config.TypedConfigBuilder;
import org.apache.spark.sql.internal.SQLConf$;

/** Delta's settings, as Spark is told of them. */
public class Settings {
    /** Each in a line: its name, what it does and its default, if it has one, with tabs between them.  Those that Spark knows stay as they are. */
    public static void tell(String settings) {
        String[] lines = settings.split("\n");
        for (int n = 0; n < lines.length; n++) {
            String[] parts = lines[n].split("\t", -1);
            if (SQLConf$.MODULE$.containsConfigKey(parts[0])) continue;
            TypedConfigBuilder setting = SQLConf$.MODULE$.buildConf(parts[0]).doc(parts[1]).stringConf();
            if (parts.length > 2) setting.createWithDefault(parts[2]);
            else setting.createOptional();
        }
    }
}
