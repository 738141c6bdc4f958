"""Sets up its file systems itself, as programs do with their credentials, and looks whether it can
reach its data by what it has set; then waits to be let go on to its end."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

folder = Path(sys.argv[1])
context = SparkSession.builder.getOrCreate().sparkContext
hadoop = context._jsc.sc().hadoopConfiguration()
for name in ("ck", "data"):
    hadoop.set(f"fs.viewfs.mounttable.c.link./{name}", f"file://{folder}/{name}")
path = context._jvm.org.apache.hadoop.fs.Path("viewfs://c/data")
try:
    outcome = str(path.getFileSystem(hadoop).exists(path))
except Exception as error:
    outcome = str(error)
(folder / "outcome").write_text(json.dumps(outcome))
while not (folder / "go").exists():
    time.sleep(0.05)
if sys.argv[2] == "stops":
    context.stop()
else:
    raise RuntimeError("the program is broken")
