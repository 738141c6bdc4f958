"""What becomes of each block of code: every one is run, read, compared, or says why it is not."""

import re

from tests.docs.pages import Block

# Python that can't be run here, by page and first line: it is compiled, what it imports is there,
# and each name that it uses is its own or the reader's (YOURS).
COMPILED = {
    ("docs/agent.md", "from pyspark import SparkContext"): "needs a socket and HDFS",
    ("docs/kafka.md", "clicks = ("): "needs Spark's connector and a broker",
    ("docs/kinesis.md", "from pyspark.sql import SparkSession"): "needs a stream and a bucket",
    ("docs/kinesis.md", "day = ("): "needs a stream",
    ("docs/kinesis.md", "from pyspark import SparkContext"): "needs a stream and a bucket",
    (
        "docs/kinesis.md",
        "from dagster_sparkscale.sources.kinesis import kinesis_direct_stream",
    ): "needs a stream and a database",
    ("docs/receivers.md", "from pyspark import SparkContext"): "needs a socket and HDFS",
}
# What the reader of such a block has: his own names.
YOURS = {"database", "host", "ssc", "port", "process", "spark", "write"}

# Python that needs a SparkSession and no more.
ON_SPARK = {
    ("docs/backpressure.md", "from dagster_sparkscale import stream_options"),
    ("docs/kafka.md", "from dagster_sparkscale import SourceLimits, stream_options"),
    ("docs/kinesis.md", "from dagster_sparkscale.sources import kinesis"),
}

# What no program reads.
PROSE = {
    ("docs/agent.md", "python -m dagster_sparkscale.driver"): "a synopsis",
    ("docs/agent.md", "sparkscale: last words"): "a line of a log, read as Dagster reads it",
    ("docs/architecture.md", "declare  ->  observe"): "a drawing",
    ("docs/architecture.md", "cli/   "): "a list, compared with the package",
    ("docs/backpressure.md", "rate = max("): "a formula",
    (
        "docs/capacity.md",
        "2 -> 8: needs 3.8",
    ): "a reason, of which tests of the policy have the parts",
    ("docs/capacity.md", "p = a + g (b1"): "a formula",
    ("docs/capacity.md", "n + price_of_lateness * P"): "a formula",
    ("docs/clusters.md", "[Service]"): "a unit of systemd",
    ("docs/component.md", "defs.yaml:21"): "an error, as tests/components compare them",
    (
        "docs/contributing.md",
        "dagster_sparkscale/driver/executors/victims.py:35",
    ): "what a mutant looks like",
    ("docs/deciding.md", "collect  ->  evaluate"): "a drawing",
    ("docs/declaring.md", "DStream 'orders': receivers"): "an error, compared with the real one",
    ("docs/kinesis.md", "PUT /v1/rates"): "a request, sent to an agent",
    ("docs/kinesis.md", "kinesis_direct_stream("): "a signature, compared with the real one",
    ("docs/production.md", "ALTER TABLE instigators"): "SQL, which tests/databases run on MySQL",
    ("docs/receivers.md", "DStream 'orders': receivers"): "an error, compared with the real one",
    ("docs/tutorial.md", "definitions.py/spark_cluster at"): "a table, as tests/cli compare them",
    ("docs/tutorial.md", "driver 4 was running"): "a report, as tests/lifecycle compare them",
}

_SHELL = re.compile(
    r"(\$ )?([A-Z_]+=\S+ )*"
    r"(cp|dg|docker|echo|export|helm|kill|kubectl|make|mkdir|pip|python|sparkscale) "
)


def named(block: Block, names: object) -> tuple[str, str] | None:
    """The entry of `names` about this block: its page, and how its first line begins."""
    assert isinstance(names, dict | set)
    for page, beginning in names:
        if page == block.page and block.first.startswith(beginning.rstrip()):
            return page, beginning
    return None


def kind(block: Block) -> str | None:
    """How it is tested: `file` (of the tutorial), `run`, `spark`, `compiled`, `json`, `yaml`,
    `shell`, `prose`; None: not."""
    if block.title:
        return "file" if block.page == "docs/tutorial.md" else None
    if block.language == "python":
        if named(block, COMPILED):
            return "compiled"
        return "spark" if named(block, ON_SPARK) else "run"
    if block.language in ("json", "yaml"):
        return block.language
    if named(block, PROSE):
        return "prose"
    return "shell" if not block.language and _SHELL.match(block.text.strip() + " ") else None
