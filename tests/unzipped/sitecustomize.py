"""Read by every Python that starts with this folder on its path: PySpark comes from site-packages.

Spark has its Python processes import PySpark from a zip file, which holds no byte code, so each of
them compiles it anew: two thirds of the second of CPU that it takes to start. The same files, and
what was compiled of them, lie in the site-packages that Spark itself is in.
"""

import sys
from pathlib import Path


def _packed(entry: str) -> bool:
    path = Path(entry)
    return path.suffix in (".zip", ".jar") and "pyspark" in path.parts


sys.path[:] = [each for each in sys.path if not _packed(each)]
