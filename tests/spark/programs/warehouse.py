"""A nightly load of a small warehouse, in SQL alone, as users of delta-spark write them.  It names Rowlock nowhere."""

import re
import sys

from delta import configure_spark_with_delta_pip
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

root = sys.argv[1]
spark = configure_spark_with_delta_pip(
    SparkSession.builder.appName("warehouse")
    .master("local[2]")
    .config("spark.driver.memory", "768m")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "America/New_York")
    .config("spark.sql.warehouse.dir", f"{root}/warehouse")
    .config("spark.databricks.delta.properties.defaults.enableChangeDataFeed", "true")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
).getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def show(text):
    """The rows of a query, sorted; or what the statement's error is called."""
    try:
        print(sorted(str(tuple(row)) for row in spark.sql(text).collect()))
    except Exception as e:  # of the JVM, for some
        print(isinstance(e, AnalysisException), re.search(r"\[([A-Z_.]+)\]", str(e))[1])


TABLES = """
CREATE SCHEMA dw
;CREATE TABLE dw.customers (key BIGINT GENERATED ALWAYS AS IDENTITY, id INT NOT NULL, name STRING COMMENT 'as they write it', city VARCHAR(12), since DATE, until DATE)
  USING delta COMMENT 'slowly changing, type 2' TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'quality' = 'gold')
;CREATE TABLE dw.sales (id BIGINT, customer INT, at TIMESTAMP, amount DECIMAL(10, 2), tags ARRAY<STRING>, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)))
  USING delta PARTITIONED BY (day)
;ALTER TABLE dw.sales ADD CONSTRAINT positive CHECK (amount > 0)
;CREATE TABLE dw.by_city USING delta CLUSTER BY (city) AS SELECT CAST('nowhere' AS STRING) AS city, 0L AS sales, CAST(0 AS DECIMAL(20, 2)) AS amount
;CREATE OR REPLACE TEMPORARY VIEW arrived AS SELECT * FROM VALUES (1, 'Ann', 'Oslo'), (2, 'Bob', 'Rome'), (3, 'Cem', 'Bonn') AS t(id, name, city)
;INSERT INTO dw.customers (id, name, city, since) SELECT id, name, city, DATE '2026-01-01' FROM arrived ORDER BY id
;INSERT INTO dw.sales (id, customer, at, amount, tags) VALUES (1, 1, TIMESTAMP '2026-01-01 23:30:00', 10.50, array('a', 'b')), (2, 2, TIMESTAMP '2026-01-02 00:30:00', 20, NULL),
  (3, 3, TIMESTAMP '2026-03-08 03:30:00', 5.25, array()), (4, 1, TIMESTAMP '2026-01-02 12:00:00', 1, array('a'))
"""
for text in TABLES.split(";"):
    spark.sql(text)
show("SELECT * EXCEPT (key) FROM dw.customers")
show("SELECT id, customer, amount, tags, day, CAST(at AS STRING) FROM dw.sales")
show("INSERT INTO dw.sales (id, customer, at, amount) VALUES (9, 1, TIMESTAMP '2026-01-01 00:00:00', -1)")
show("INSERT INTO dw.customers (id, name, city) VALUES (4, 'Dee', 'a city with a long name')")
show("INSERT INTO dw.customers (id, name, city) VALUES (NULL, 'Dee', 'Riga')")
show("INSERT INTO dw.customers (key, id) VALUES (7, 7)")
show("SELECT nothing FROM dw.sales")

# A slowly changing dimension: the changed rows are closed and opened anew by one MERGE.
spark.sql("CREATE OR REPLACE TEMPORARY VIEW arrived AS SELECT * FROM VALUES (2, 'Bob', 'Nice'), (3, 'Cem', 'Bonn'), (4, 'Dee', 'Riga') AS t(id, name, city)")
show("""
MERGE INTO dw.customers AS c USING (
  SELECT id AS closes, id, name, city FROM arrived
  UNION ALL SELECT NULL, a.id, a.name, a.city FROM arrived a JOIN dw.customers c ON a.id = c.id AND c.until IS NULL AND a.city <> c.city
) AS s ON c.id = s.closes AND c.until IS NULL
WHEN MATCHED AND c.city <> s.city THEN UPDATE SET until = DATE '2026-02-01'
WHEN NOT MATCHED THEN INSERT (id, name, city, since) VALUES (s.id, s.name, s.city, DATE '2026-02-01')
""")
show("SELECT id, name, city, since, until, key > 0 FROM dw.customers")
show("SELECT count(DISTINCT key) = count(*) FROM dw.customers")
show("MERGE INTO dw.customers c USING (SELECT 1 AS id UNION ALL SELECT 1) s ON c.id = s.id WHEN MATCHED THEN UPDATE SET name = 'twice'")

# Facts: corrections, deletions, a day that is loaded again.
show(
    "UPDATE dw.sales SET amount = amount * 2, tags = array_append(coalesce(tags, array()), 'x') WHERE day = DATE '2026-01-02' AND customer IN (SELECT id FROM dw.customers WHERE city = 'Nice')"
)
show("DELETE FROM dw.sales WHERE EXISTS (SELECT 1 FROM dw.customers c WHERE c.id = dw.sales.customer AND c.city = 'Bonn')")
spark.sql("SET spark.sql.sources.partitionOverwriteMode = dynamic")
spark.sql("INSERT OVERWRITE dw.sales (id, customer, at, amount, tags) SELECT 5, 1, TIMESTAMP '2026-01-01 08:00:00', 7.77, NULL")
spark.sql("SET spark.sql.sources.partitionOverwriteMode = static")
show("SELECT id, amount, tags, day FROM dw.sales")
spark.sql("INSERT INTO dw.sales REPLACE WHERE day >= DATE '2026-03-01' SELECT 6, 4, TIMESTAMP '2026-03-09 10:00:00', 3, array('new'), DATE '2026-03-09'")
show("SELECT id, amount, tags, day FROM dw.sales")
show("INSERT INTO dw.sales REPLACE WHERE day >= DATE '2026-03-01' SELECT 7, 4, TIMESTAMP '2026-01-09 10:00:00', 3, NULL, DATE '2026-01-09'")

# The mart follows by the change data feed.
feed = "SELECT _change_type, id, amount, _commit_version FROM table_changes('dw.sales', 2)"
show(feed)
spark.sql("DECLARE VARIABLE least DECIMAL(10, 2) DEFAULT 2")
spark.sql("""
MERGE INTO dw.by_city t USING (
  SELECT c.city, count(*) AS sales, sum(s.amount) AS amount FROM dw.sales s JOIN dw.customers c ON s.customer = c.id AND c.until IS NULL WHERE s.amount > least GROUP BY c.city
) s ON t.city = s.city
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *
WHEN NOT MATCHED BY SOURCE AND t.sales = 0 THEN DELETE
""")
show("SELECT * FROM dw.by_city")

# What the tables become.
CHANGES = """
ALTER TABLE dw.customers ADD COLUMNS (vip BOOLEAN COMMENT 'buys often' AFTER name, address STRUCT<street: STRING, zip: INT>)
;ALTER TABLE dw.customers RENAME COLUMN since TO valid_from
;ALTER TABLE dw.customers DROP COLUMN until
;UPDATE dw.customers SET vip = id < 3, address.zip = id * 1000
;ALTER TABLE dw.customers ALTER COLUMN vip SET DEFAULT false
"""
for text in CHANGES.split(";"):
    try:
        spark.sql(text)
    except AnalysisException as e:
        print(text.split()[3:6], e.getCondition())
show("SELECT * EXCEPT (key) FROM dw.customers")
print([(row.version, row.operation, row.operationMetrics.get("numOutputRows")) for row in spark.sql("DESCRIBE HISTORY dw.sales").collect()])
print([tuple(row) for row in spark.sql("SHOW TBLPROPERTIES dw.customers").collect() if row.key in ("quality", "delta.enableChangeDataFeed")])
detail = spark.sql("DESCRIBE DETAIL dw.sales").first()
print(detail.format, detail.partitionColumns, detail.numFiles > 0)
spark.sql("OPTIMIZE dw.sales WHERE day >= DATE '2026-01-01'")
spark.sql("OPTIMIZE dw.by_city")
spark.sql("CREATE TABLE dw.copy SHALLOW CLONE dw.sales VERSION AS OF 3")
spark.sql("RESTORE TABLE dw.sales TO VERSION AS OF 2")
show("SELECT id, amount, day FROM dw.sales EXCEPT SELECT id, amount, day FROM dw.copy")
show("SELECT id, amount, day FROM dw.copy")
spark.sql("CREATE OR REPLACE TABLE dw.by_city USING delta AS SELECT day, sum(amount) AS amount FROM dw.sales GROUP BY day")
show("SELECT * FROM dw.by_city")
show("SELECT * FROM dw.by_city VERSION AS OF 0")
show("SHOW TABLES IN dw")
show("DROP SCHEMA dw")
spark.sql("DROP SCHEMA dw CASCADE")
show("SHOW SCHEMAS")
