"""A pipeline as users of delta-spark write them: builder, SQL, DeltaTable, formats, a stream with foreachBatch, errors.  It names Rowlock nowhere."""

import sys

from delta import configure_spark_with_delta_pip
from delta.exceptions import ConcurrentAppendException
from delta.tables import DeltaTable
from pyspark.sql import SparkSession, functions as F

root = sys.argv[1]
builder = (
    SparkSession.builder.appName("pipeline")
    .master("local[2]")
    .config("spark.driver.memory", "768m")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", f"{root}/warehouse")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

spark.sql("CREATE TABLE orders (id BIGINT, country STRING, amount DOUBLE) USING delta PARTITIONED BY (country)")
spark.sql("INSERT INTO orders VALUES (1, 'us', 10.0), (2, 'uk', 20.0), (3, 'us', 30.0)")
news = spark.createDataFrame([(3, "us", 35.0), (4, "de", 40.0)], "id long, country string, amount double")
table = DeltaTable.forName(spark, "orders")
try:
    table.alias("t").merge(news.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
except ConcurrentAppendException:
    sys.exit("nobody else writes")
table.update(F.col("country") == "uk", {"amount": F.col("amount") * 2})
spark.sql("DELETE FROM orders WHERE id = 1")

path = f"{root}/copies"
spark.table("orders").write.format("delta").mode("overwrite").save(path)
spark.range(2).selectExpr("id + 10 AS id", "'fr' AS country", "1.5D AS amount").write.format("delta").mode("append").option("mergeSchema", "true").save(path)


def upsert(batch, number):
    (DeltaTable.forPath(spark, f"{root}/totals").alias("t").merge(batch.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute())


spark.createDataFrame([], "id long, country string, amount double").write.format("delta").save(f"{root}/totals")
stream = spark.readStream.format("delta").load(path)
query = stream.writeStream.foreachBatch(upsert).option("checkpointLocation", f"{root}/checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
query = stream.writeStream.format("delta").option("checkpointLocation", f"{root}/other").trigger(availableNow=True).start(f"{root}/sink")
query.awaitTermination()
query = stream.writeStream.option("checkpointLocation", f"{root}/third").trigger(availableNow=True).toTable("streamed")
query.awaitTermination()

for name in ("orders", f"delta.`{path}`", f"delta.`{root}/totals`", f"delta.`{root}/sink`", "streamed"):
    print(sorted(tuple(row) for row in spark.table(name).collect()))
print(spark.sql("SELECT count(*) FROM orders VERSION AS OF 1").first()[0], DeltaTable.isDeltaTable(spark, path))
print(sorted({row.operation for row in table.history().collect()}))
