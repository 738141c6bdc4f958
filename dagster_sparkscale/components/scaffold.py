"""What `dg scaffold defs dagster_sparkscale.SparkStreams NAME` writes: a stream that runs as is."""

import re
from pathlib import Path

import dagster as dg
from pydantic import BaseModel, Field

JOBS = "jobs"
"""The folder of programs of a project whose streams are declared in Python."""

PROGRAM = '''\
"""What the stream does: count as fast as it is told to, and print each number that 7 divides.

Plain PySpark, to be replaced by yours. It runs without Dagster as well: python {program}
"""

from pyspark.sql import SparkSession
from pyspark.sql.functions import col


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    # Set from `batch_interval` in {definitions}.
    interval = spark.conf.get("spark.sparkscale.batchIntervalMs", "10000")

    numbers = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    query = (
        numbers.where(col("value") % 7 == 0)
        .writeStream.format("console")
        .trigger(processingTime=f"{{interval}} milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
'''

YAML = """\
type: {type_name}

attributes:
  cluster:
    type: LocalCluster
    workers: 2
{cluster_key}
  streams:
    - type: StructuredStream
      name: {stream}
      # Beside this file.
      program: {program}
      batch_interval: 10s
      # Where its progress is kept, as an absolute path or a URI: without one it begins anew.
      # checkpoint_location: s3a://bucket/checkpoints/{stream}
      autoscale:
        type: RatioPolicy
        min_executors: 1
        max_executors: 4
"""

PYTHON = """\
import dagster as dg

from {module} import {name}
from dagster_sparkscale import LocalCluster, RatioPolicy, StructuredStream


@dg.component_instance
def load(context: dg.ComponentLoadContext) -> {name}:
    return {name}(
        cluster=LocalCluster(workers=2),
        streams=[
            StructuredStream(
                name="{stream}",
                # Not beside this file, where Dagster imports all Python that there is.
                program=str(context.project_root / "{programs}" / "{program}"),
                batch_interval="10s",
                # Where its progress is kept, as an absolute path or a URI: without one it begins
                # anew.
                # checkpoint_location="s3a://bucket/checkpoints/{stream}",
                autoscale=RatioPolicy(min_executors=1, max_executors=4),
            )
        ],
    )
"""


class ScaffoldParams(BaseModel):
    """What `dg scaffold defs` can be given."""

    stream: str = Field(
        default="",
        description="Name of the stream. Default: that of the folder.",
        pattern="^([A-Za-z][A-Za-z0-9_]{0,62})?$",
    )


class SparkStreamsScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes the definitions of a stream on a cluster of this machine, and its program."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        # Appended, the target is the file itself.
        folder = request.target_path.parent if request.append else request.target_path
        stream = request.params.stream or _stream_name(folder.name)
        if request.append and not request.params.stream:
            stream = f"{stream}_2"
        in_python = request.scaffold_format == "python"
        # Beside a component.py Dagster imports each file of Python as definitions.
        programs = (request.project_root or folder) / JOBS if in_python else folder
        programs.mkdir(parents=True, exist_ok=True)
        program = _unused(programs, stream)
        module, _, name = request.type_name.rpartition(".")
        values = {
            **{"type_name": request.type_name, "module": module, "name": name},
            **{"stream": stream, "program": program.name, "programs": JOBS},
            "cluster_key": "",
        }
        if in_python:
            definitions, text = folder / "component.py", PYTHON
        else:
            definitions, text = folder / "defs.yaml", YAML
        if request.append:
            definitions, text = request.target_path, f"---\n{text}"
            values["cluster_key"] = f"  cluster_key: {stream}\n"
        program.write_text(
            PROGRAM.format(program=program.name, definitions=definitions.name), encoding="utf-8"
        )
        with definitions.open("a" if request.append else "w", encoding="utf-8") as file:
            file.write(text.format(**values))


def _stream_name(folder: str) -> str:
    """The name of a stream that is like that of a folder."""
    name = re.sub("[^A-Za-z0-9_]", "_", folder)[:60]
    return name if name[:1].isalpha() else f"s_{name}"


def _unused(folder: Path, stream: str) -> Path:
    """A program in the folder that is not there yet: nobody's is written over."""
    program, number = folder / f"{stream}.py", 2
    while program.exists():
        program, number = folder / f"{stream}_{number}.py", number + 1
    return program
