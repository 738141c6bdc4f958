"""Counts the lines of files that come into a folder, key by key, for good.

    counting.py FOLDER [QUERY[=PROVIDER]...]

Each query has a folder of its name in FOLDER, with `in`, `out` and `checkpoint` in it; where the
setting `spark.sql.streaming.checkpointLocation` names another place for checkpoints, it is there.
PROVIDER is the class of its state stores, where it is not the one that the settings name.
What a batch has counted is a file of its number: one that is run again writes the same.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.getOrCreate()
folder, names = Path(sys.argv[1]), sys.argv[2:] or ["counts"]


def start(place: Path, provider: str) -> None:
    session = spark.newSession() if provider else spark
    if provider:
        session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    for name in ("in", "out"):
        (place / name).mkdir(parents=True, exist_ok=True)

    def write(counted: DataFrame, batch: int) -> None:
        rows = {row["key"]: row["count"] for row in counted.collect()}
        draft = place / f"draft-{batch}"
        draft.write_text(json.dumps(rows))
        draft.rename(place / "out" / f"{batch}.json")

    lines = session.readStream.schema("key string").csv(str(place / "in"))
    query = (
        lines.groupBy("key")
        .count()
        .writeStream.queryName(place.name)
        .outputMode("update")
        .trigger(processingTime="1 second")
        .foreachBatch(write)
    )
    if not spark.conf.get("spark.sql.streaming.checkpointLocation", None):
        query = query.option("checkpointLocation", str(place / "checkpoint"))
    query.start()


for each in names:
    name, _, provider = each.partition("=")
    start(folder / name, provider)
spark.streams.awaitAnyTermination()
