"""Read by every Python that starts with this folder on its path: PySpark comes from site-packages.

Spark has its Python processes import PySpark from a zip file, which holds no byte code, so each of
them compiles it anew: two thirds of the second of CPU that it takes to start. The same files, and
what was compiled of them, lie in the site-packages that Spark itself is in.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _packed(entry: str) -> bool:
    path = Path(entry)
    zipped = path.name == "pyspark.zip" or path.name.startswith("py4j-")
    return zipped or path.name.startswith("spark-core_")


sys.path[:] = [each for each in sys.path if not _packed(each)]

# Somebody's own, which this one hides.
_others = [each for each in sys.path if Path(each) != Path(__file__).parent]
if (_spec := PathFinder.find_spec("sitecustomize", _others)) and _spec.loader:
    _spec.loader.exec_module(module_from_spec(_spec))
