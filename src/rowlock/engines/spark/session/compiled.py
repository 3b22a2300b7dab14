"""Compiles Rowlock's Java source with the compiler that Spark carries (Janino), and loads the classes into Spark's JVM.  No JAR is shipped.

The classes are kept as a JAR in the user's cache folder, by Spark's version and a hash of the source; where no folder can be
written, in a temporary one.  Several processes may do this at once.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rowlock import clock
from rowlock.engines.spark.catalyst.bridge import catalyst, entries
from rowlock.engines.spark.catalyst.versions import java_of
from rowlock.engines.spark.session.java import cache_folder
from rowlock.exceptions import RowlockError, UnsupportedFeature

SOURCES = {
    "files": "rowlock.Files",
    "streams": "rowlock.Bridge",
    "scans": "rowlock.Scans",
    "saved": "rowlock.Saved",
    "rowlock": "rowlock.Statement",
    "settings": "rowlock.Settings",
    "hadoop": "rowlock.Hadoop",
}
"""The files of Java source, in their order, and a class of each.  They lie beside the modules that use them."""
SERVICES = {
    **dict.fromkeys(SOURCES, ()),
    "rowlock": ("rowlock.DefaultSource", "rowlock.Delta"),
    "rowlock-beside": ("rowlock.DefaultSource",),
}
"""The data sources that the classes of a source bring by their names: `rowlock-beside` is `rowlock` beside delta-spark, which has the name `delta`."""
_SERVICES = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


class Classes:
    """Rowlock's classes in the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm = catalyst(spark).jvm
        self._loader: Any = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def load(self, *sources: str) -> None:
        """Loads the classes of these sources, by their names in SERVICES, where this JVM has not got them.

        Raises UnsupportedFeature where Spark cannot compile or load them.
        """
        for source in sources:
            if self._known(SOURCES[_of(source)]):
                continue
            jar = compiled_jar(source, self._spark.version, self._compile)
            place = self._jvm.java.io.File(str(jar)).toURI().toURL()
            if hasattr(self._loader, "addURL"):
                self._loader.addURL(place)
            elif source == "files":  # its classes are not asked for by their names
                gateway: Any = self._spark.sparkContext._gateway
                urls = gateway.new_array(self._jvm.java.net.URL, 1)
                urls[0] = place
                self._loader = self._jvm.java.net.URLClassLoader(urls, self._loader)
            else:
                text = "This Spark takes no classes at run time, so rowlock.enable and rowlock.streaming.read cannot work on it: use rowlock.sql(spark, text)"
                raise UnsupportedFeature(text, feature="rowlock.enable", access="write")

    def _known(self, name: str) -> bool:
        try:
            self._loader.loadClass(name)
        except Exception:  # noqa: BLE001 - ClassNotFoundException, under whichever name pyspark gives it
            return False
        return True

    def _compile(self, source: str) -> bytes:
        """The JAR of a compiled source."""
        file = source_file(source)
        try:
            compiler = self._jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(self._loader)
            compiler.setSourceVersion(8)
            compiler.setTargetVersion(8)
            compiler.cook(file.name, self._jvm.java.io.StringReader(java_of(self._spark.version, file.read_text(encoding="utf-8"))))
            classes = {name: bytes(code) for name, code in entries(compiler.getBytecodes()).items()}
        except Exception as e:
            text = f"Spark {self._spark.version} could not compile Rowlock's Java source {file.name}, so rowlock.enable and rowlock.streaming.read cannot work on it: use rowlock.sql(spark, text). {e}"
            raise UnsupportedFeature(text, feature="rowlock.enable", access="write") from e
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as jar:
            for name, code in classes.items():
                jar.writestr(f"{name.replace('.', '/')}.class", code)
            if services := SERVICES[source]:
                jar.writestr(_SERVICES, "".join(f"{name}\n" for name in services))
        return out.getvalue()

    def field(self, name: str, value: Any) -> None:
        """Sets a static field of the bridge."""
        self._loader.loadClass("rowlock.Bridge").getField(name).set(None, value)

    def new(self, name: str) -> Any:
        """A new instance of one of Rowlock's classes."""
        gateway: Any = self._spark.sparkContext._gateway
        kinds, values = gateway.new_array(self._jvm.java.lang.Class, 0), gateway.new_array(self._jvm.java.lang.Object, 0)
        return self._loader.loadClass(f"rowlock.{name}").getDeclaredConstructor(kinds).newInstance(values)


def source_file(source: str) -> Path:
    """The file of Java source by its name in SERVICES."""
    (found,) = Path(__file__).parents[1].glob(f"*/{_of(source)}.java")
    return found


def _of(source: str) -> str:
    """The file whose classes a source's are."""
    return source.removesuffix("-beside")


def compiled_jar(source: str, spark_version: str, compile_: Callable[[str], bytes]) -> Path:
    """The JAR for this source and this version of Spark: from the cache, else what `compile_` gives, which is kept there."""
    whole = "".join(java_of(spark_version, source_file(each).read_text(encoding="utf-8")) for each in SOURCES)  # a source may name classes of another
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    name = f"{source}-{spark_version}-{digest}.jar"
    try:
        folder = cache_folder()
    except RowlockError:  # nothing can be written but temporary files
        folder = Path(tempfile.mkdtemp(prefix="rowlock-"))
    jar = folder / name
    if jar.exists() and zipfile.is_zipfile(jar):
        return jar
    content = compile_(source)
    fresh = folder / f".{name}.{clock.new_id()}"
    try:
        fresh.write_bytes(content)
    except OSError:  # full, or not ours after all
        jar = Path(tempfile.mkdtemp(prefix="rowlock-")) / name
        jar.write_bytes(content)
        return jar
    fresh.replace(jar)  # atomic: other processes see no JAR or a complete one
    return jar
