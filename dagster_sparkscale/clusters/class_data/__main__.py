"""`python -m dagster_sparkscale.clusters.class_data`: makes an archive, and prints its path."""

import argparse
import signal
import sys
from pathlib import Path

from dagster_sparkscale.clusters.class_data import archives
from dagster_sparkscale.clusters.class_data.maker import CannotMake
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.java import java_home, spark_home


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dagster_sparkscale.clusters.class_data",
        description="Make an archive of class data for a Java and a Spark, and print its path.",
    )
    parser.add_argument("--folder", type=Path, help="default: this user's cache folder")
    parser.add_argument("--java", help="its home; default: the one that is found")
    parser.add_argument("--spark", type=Path, help="its home; default: the pyspark package's")
    parser.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    try:
        spark = parsed.spark or spark_home()
        java = java_home(parsed.java, spark)
        folder = parsed.folder or archives.user_folder()
        for part in ("jars", "bin/spark-submit"):
            if not (spark / part).exists():
                raise CannotMake(f"--spark {spark}: has no {part}")
        if parsed.background:
            archives.make_in_background(java, spark, folder)
        else:
            spark, folder = spark.absolute(), folder.absolute()
            archive = archives.archive_path(java, spark, folder)
            if not archives.is_whole(archive):
                print(f"Making {archive}, which takes a minute or two ...", file=sys.stderr)
            print(archives.make(java, spark, folder))
    except (CannotMake, ClusterError, OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
