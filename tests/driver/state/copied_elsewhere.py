"""Copies a file of a checkpoint on HDFS or in an object store.

    python -m tests.driver.state.copied_elsewhere CHECKPOINT SETTINGS

Prints a line of JSON with what came of it.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from dagster_sparkscale.driver.state.folder import Folder
from tests.driver.running import environment
from tests.driver.state.elsewhere import Elsewhere
from tests.driver.state.twins import session
from tests.waiting import patience

CONTENT = b"state" * 1000
QUOTA = 4 << 30
"""Bytes, of the folder that the checkpoint is in."""
COPIED = {
    "same": True,
    "over another": "FileExistsError",
    "put over another": "FileExistsError",
    "of none": "FileNotFoundError",
}


def told(elsewhere: Elsewhere, **more: str) -> dict[str, Any]:
    """What came of it there, with more settings of Spark."""
    settings = json.dumps({**elsewhere.settings, **more})
    done = subprocess.run(
        [
            *(sys.executable, "-m", __name__),
            *(f"{elsewhere.place.url}{elsewhere.folder}/checkpoint", settings),
        ],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=patience(180),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def failure(do: Callable[[], object]) -> str:
    try:
        do()
    except Exception as error:
        return type(error).__name__
    return "none"


def main(checkpoint: str, settings: str) -> None:
    spark = session(json.loads(settings))
    folder = Folder(spark, checkpoint)
    path = spark._jvm.org.apache.hadoop.fs.Path(checkpoint)
    system: Any = path.getFileSystem(spark._jsc.hadoopConfiguration())
    in_s3 = checkpoint.startswith("s3a:")

    def read() -> int:
        counters = system.getIOStatistics().counters() if in_s3 else {}
        return int(counters.getOrDefault("stream_read_bytes", 0)) if in_s3 else 0

    folder.write("state/1.zip", CONTENT)
    before = read()
    folder.copy("state/1.zip", "state/2.zip")
    driver = read() - before
    found = {
        "same": folder.read("state/2.zip") == CONTENT,
        "over another": failure(lambda: folder.copy("state/1.zip", "state/2.zip")),
        "put over another": failure(lambda: folder.put("state/1.zip", b"another")),
        "of none": failure(lambda: folder.copy("state/0.zip", "state/3.zip")),
    }
    if in_s3:
        found |= {"read by the driver": driver, "read by a reader": read() - before}
    folder.put("state/4.zip", CONTENT)
    found |= {"there": folder.names("state"), "free": folder.free()}
    if not in_s3:
        system.setQuota(path.getParent(), (1 << 63) - 1, QUOTA)
        found["slots"] = spark.sparkContext.defaultParallelism
        found["free with a quota"] = Folder(spark, checkpoint).free()
        uri, hadoop = path.toUri(), spark._jsc.hadoopConfiguration()
        root = f"{uri.getScheme()}://{uri.getAuthority()}/"
        hadoop.set("fs.viewfs.mounttable.all.link./on", root)
        found["free by a view"] = Folder(spark, f"viewfs://all/on{uri.getPath()}").free()
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
