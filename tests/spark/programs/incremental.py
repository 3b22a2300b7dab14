"""Batches and streams that keep tables up to date, by DataFrames and DeltaTable, as they are written for delta-spark.  It names Rowlock nowhere."""

import sys

from delta import DeltaTable, configure_spark_with_delta_pip
from delta.tables import IdentityGenerator
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, Window, functions as F
from pyspark.sql.types import DateType, IntegerType, LongType, StringType, StructField, StructType

root = sys.argv[1]
builder = (
    SparkSession.builder.appName("incremental")
    .master("local[2]")
    .config("spark.driver.memory", "768m")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.warehouse.dir", f"{root}/warehouse")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def show(what, frame):
    print(what)
    for row in sorted(map(str, frame.collect())):
        print("   ", row)


def attempt(what, call):
    try:
        found = call()
        print(what, "fine", found if isinstance(found, list) else "")
    except PySparkException as e:
        known = next(c.__name__ for c in type(e).__mro__ if c.__module__.startswith("pyspark"))
        print(what, known, e.getCondition(), e.getSqlState())


# events, with generated, identity and default columns by the builder
(
    DeltaTable.createIfNotExists(spark)
    .tableName("events")
    .addColumn("id", dataType=LongType(), generatedByDefaultAs=IdentityGenerator(start=10, step=5))
    .addColumn("at", "TIMESTAMP", nullable=False, comment="when")
    .addColumn("day", DateType(), generatedAlwaysAs="CAST(at AS DATE)")
    .addColumn("kind", StringType())
    .addColumn("n", IntegerType())
    .partitionedBy("day")
    .property("delta.enableChangeDataFeed", "true")
    .comment("what happened")
    .execute()
)
events = DeltaTable.forName(spark, "events")
batch = spark.createDataFrame(
    [("2024-01-01 01:00:00", "a", 1), ("2024-01-01 02:00:00", "b", 2), ("2024-01-02 03:00:00", "a", 3)], "at string, kind string, n int"
)
batch.withColumn("at", F.to_timestamp("at")).write.format("delta").mode("append").saveAsTable("events")
show("events", events.toDF().select("at", "day", "kind", "n"))
events.update(F.expr("kind = 'a' AND day = '2024-01-02'"), {"n": F.col("n") * 10, "at": "at + INTERVAL 1 DAY"})
events.delete("n = 2")
show("events", events.toDF().select("at", "day", "kind", "n"))
show(
    "feed", spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).table("events").select("kind", "n", "day", "_change_type")
)

# daily totals: dynamic partitions, replaceWhere, schema evolution
totals = f"{root}/totals"
events.toDF().groupBy("day", "kind").agg(F.sum("n").alias("n")).write.format("delta").partitionBy("day").save(totals)
late = spark.createDataFrame([("2024-01-01", "a", 100)], "day string, kind string, n long").withColumn("day", F.to_date("day"))
late.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(totals)
show("dynamic", spark.read.format("delta").load(totals))
attempt("another day", lambda: late.write.format("delta").mode("overwrite").option("replaceWhere", "day = '2024-01-03'").save(totals))
late.withColumn("n", F.col("n") + 1).write.format("delta").mode("overwrite").option("replaceWhere", "day >= '2024-01-01' AND day < '2024-01-02'").save(totals)
attempt("a new column", lambda: late.withColumn("more", F.lit(1)).write.format("delta").mode("append").save(totals))
late.withColumn("more", F.lit(1)).write.format("delta").mode("append").option("mergeSchema", "true").save(totals)
attempt("a string for a long", lambda: late.withColumn("n", F.lit("x")).write.format("delta").mode("append").save(totals))
attempt("other partitions", lambda: late.write.format("delta").mode("append").partitionBy("kind").save(totals))
attempt("there already", lambda: late.write.format("delta").mode("error").save(totals))
show("totals", spark.read.format("delta").load(totals))
show("version 1", spark.read.format("delta").option("versionAsOf", 1).load(totals))
attempt("no such version", lambda: spark.read.format("delta").option("versionAsOf", 99).load(totals).count())
late.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("kind").save(f"{root}/totals")
show("overwritten", spark.read.format("delta").load(totals))
print(DeltaTable.forPath(spark, totals).detail().select("partitionColumns", "numFiles").collect())

# DataFrameWriterV2
spark.range(5).withColumn("p", F.col("id") % 2).writeTo("v2").using("delta").partitionedBy("p").tableProperty("team", "x").create()
spark.range(5, 7).withColumn("p", F.col("id") % 2).writeTo("v2").append()
spark.range(100, 101).withColumn("p", F.lit(0).cast("long")).writeTo("v2").overwritePartitions()
spark.range(200, 201).withColumn("p", F.lit(1).cast("long")).writeTo("v2").overwrite(F.col("p") == 1)
show("v2", spark.table("v2"))
attempt("v2 again", lambda: spark.range(1).writeTo("v2").using("delta").create())
spark.range(3).writeTo("v2").using("delta").createOrReplace()
show("v2 replaced", spark.table("v2"))

# slowly changing dimension
spark.sql("CREATE TABLE dim (k BIGINT, name STRING, since DATE, until DATE, current BOOLEAN) USING delta")
dim = DeltaTable.forName(spark, "dim")
for day, rows in (("2024-01-01", [(1, "a"), (2, "b")]), ("2024-01-02", [(1, "A"), (3, "c"), (2, "b")]), ("2024-01-03", [(3, "C"), (3, "C")])):
    news = spark.createDataFrame(rows, "k long, name string").withColumn("since", F.to_date(F.lit(day)))
    news = news.withColumn("rank", F.row_number().over(Window.partitionBy("k").orderBy("name"))).where("rank = 1").drop("rank")
    changed = news.alias("n").join(dim.toDF().alias("d"), "k").where("d.current AND d.name <> n.name").selectExpr("NULL AS key", "n.*")
    staged = changed.union(news.selectExpr("k AS key", "*"))
    (
        dim.alias("t")
        .merge(staged.alias("s"), "t.k = s.key AND t.current")
        .whenMatchedUpdate(condition="t.name <> s.name", set={"current": "false", "until": "s.since"})
        .whenNotMatchedInsert(values={"k": "s.k", "name": "s.name", "since": "s.since", "current": F.lit(True)})
        .execute()
    )
show("dim", dim.toDF())
double = spark.createDataFrame([(1, "x"), (1, "y")], "k long, name string")
attempt("two for one", lambda: dim.alias("t").merge(double.alias("s"), "t.k = s.k").whenMatchedUpdate(set={"name": "s.name"}).execute())
attempt("no such column", lambda: dim.update("nowhere = 1", {"name": "'x'"}))
attempt("no clause", lambda: dim.alias("t").merge(double.alias("s"), "t.k = s.k").execute())
# streams
src = f"{root}/src"
spark.range(4).withColumn("v", F.lit(0)).write.format("delta").save(src)
schema = StructType([StructField("id", LongType()), StructField("v", IntegerType())])
spark.createDataFrame([], schema).write.format("delta").option("delta.enableChangeDataFeed", "true").save(f"{root}/dst")


def upsert(frame, number):
    frame = frame.groupBy("id").agg(F.max("v").alias("v"))
    DeltaTable.forPath(frame.sparkSession, f"{root}/dst").alias("t").merge(
        frame.alias("s"), "t.id = s.id"
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def run(writer):
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def stream(**options):
    return spark.readStream.format("delta").options(**options).load(src)


def once(name, frame, **options):
    return frame.writeStream.format("delta").options(checkpointLocation=f"{root}/cp-{name}", path=f"{root}/{name}", **options)


run(stream().writeStream.foreachBatch(upsert).option("checkpointLocation", f"{root}/cp-upsert"))
spark.range(3, 6).withColumn("v", F.lit(1)).write.format("delta").mode("append").save(src)
run(stream(maxFilesPerTrigger=1).writeStream.foreachBatch(upsert).option("checkpointLocation", f"{root}/cp-upsert"))
show("dst", spark.read.format("delta").load(f"{root}/dst"))
run(once("copy", stream()))
DeltaTable.forPath(spark, src).delete("id = 0")
attempt("a delete ends a stream", lambda: run(once("copy", stream())))
attempt("unless it is passed over", lambda: run(once("copy", stream(skipChangeCommits="true"))))
attempt("ignoreChanges", lambda: run(once("copy2", stream(ignoreChanges="true", startingVersion="0"))))
show("copy", spark.read.format("delta").load(f"{root}/copy"))
changes = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(f"{root}/dst")
run(once("changes", changes.select("id", "v", "_change_type")))
show("changes", spark.read.format("delta").load(f"{root}/changes"))
counts = stream(startingVersion="1", skipChangeCommits="true").groupBy("v").count()
run(once("counts", counts).outputMode("complete"))
show("counts", spark.read.format("delta").load(f"{root}/counts"))
query = (
    stream(startingVersion="1", skipChangeCommits="true").writeStream.option("checkpointLocation", f"{root}/cp-table").trigger(once=True).toTable("from_stream")
)
query.awaitTermination()
show("from_stream", spark.table("from_stream"))

# upkeep
dst = DeltaTable.forPath(spark, f"{root}/dst")
dst.optimize().executeCompaction()
dst.optimize().executeZOrderBy("id")
attempt("vacuum", lambda: dst.vacuum(0))
dst.restoreToVersion(1)
show("restored", dst.toDF())
attempt("upgrade", lambda: dst.upgradeTableProtocol(1, 3))
attempt("a feature", lambda: dst.addFeatureSupport("domainMetadata"))
attempt("is it one", lambda: [DeltaTable.isDeltaTable(spark, p) for p in (src, root, f"{root}/nowhere")])
spark.range(4).write.partitionBy().parquet(f"{root}/pq")
DeltaTable.convertToDelta(spark, f"parquet.`{root}/pq`")
show("converted", spark.read.format("delta").load(f"{root}/pq"))
attempt("no table", lambda: DeltaTable.forPath(spark, f"{root}/nowhere"))
attempt("no name", lambda: DeltaTable.forName(spark, "nowhere"))
attempt("read nothing", lambda: spark.read.format("delta").load(f"{root}/nowhere"))
view = spark.read.format("delta").load(src)
view.createOrReplaceTempView("srcview")
spark.sql(f"INSERT INTO delta.`{src}` SELECT id + 100, v FROM srcview WHERE id = 1")
show("view", spark.table("srcview"))
