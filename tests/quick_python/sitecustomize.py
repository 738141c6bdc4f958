"""Read by every Python that starts with this folder on its path: one that lives for seconds.

- PySpark comes from site-packages. Spark has its Python processes import it from a zip file, which
  holds no byte code, so each compiles it anew: two thirds of the second of CPU that it takes to
  start. The same files, compiled, lie in the site-packages that Spark itself is in.
- NumPy's linear algebra, which nobody here uses, starts no threads; they are busy for a while.
- After each task a Python worker looks for garbage among all it has ever imported, which takes
  longer than a small task. Here it looks among what is new since the last time.
"""

import gc
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _packed(entry: str) -> bool:
    path = Path(entry)
    zipped = path.name == "pyspark.zip" or path.name.startswith("py4j-")
    return zipped or path.name.startswith("spark-core_")


_installed = [each for each in sys.path if not _packed(each)]
if PathFinder.find_spec("pyspark", _installed):  # else there is none but Spark's own
    sys.path[:] = _installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if "pyspark.daemon" in sys.orig_argv:
    _collect_all = gc.collect

    def _collect(generation: int = 2) -> int:
        found = _collect_all(generation)
        gc.freeze()
        return found

    gc.collect = _collect

# Somebody's own, which this one hides. Those before this one have been looked at already.
_paths = [Path(each) for each in sys.path]
_others = sys.path[_paths.index(Path(__file__).parent) + 1 :]
if (_spec := PathFinder.find_spec("sitecustomize", _others)) and _spec.loader:
    _spec.loader.exec_module(module_from_spec(_spec))
