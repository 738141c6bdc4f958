"""Copies a file of a checkpoint in an object store.

    python -m tests.driver.state.copied_in_s3 CHECKPOINT SETTINGS

Prints a line of JSON with what came of it.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from dagster_sparkscale.driver.spark.jvm import is_missing_file
from dagster_sparkscale.driver.state.folder import Folder
from tests.driver.state.twins import session

CONTENT = b"state" * 1000


def failure(do: Callable[[], object]) -> str:
    try:
        do()
    except Exception as error:
        return "missing" if is_missing_file(error) else type(error).__name__
    return "none"


def main(checkpoint: str, settings: str) -> None:
    spark = session(json.loads(settings))
    folder = Folder(spark, checkpoint)
    path = spark._jvm.org.apache.hadoop.fs.Path(checkpoint)
    counters: Any = path.getFileSystem(spark._jsc.hadoopConfiguration()).getIOStatistics()

    def read() -> int:
        return int(counters.counters().getOrDefault("stream_read_bytes", 0))

    folder.write("state/1.zip", CONTENT)
    before = read()
    folder.copy("state/1.zip", "state/2.zip")
    told = {
        "read by the driver": read() - before,
        "same": folder.read("state/2.zip") == CONTENT,
        "read by a reader": read() - before,
        "over another": failure(lambda: folder.copy("state/1.zip", "state/2.zip")),
        "put over another": failure(lambda: folder.put("state/1.zip", b"another")),
        "of none": failure(lambda: folder.copy("state/0.zip", "state/3.zip")),
        "free": folder.free(),
    }
    print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
