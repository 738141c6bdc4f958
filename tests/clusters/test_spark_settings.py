"""The settings of a submission, and that they arrive in the JVM as they were meant."""

import re
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.java import java_home
from dagster_sparkscale.clusters.launch.spark_settings import properties, settings
from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import DStream, StructuredStream
from dagster_sparkscale.driver.backpressure.plan import plan_of
from dagster_sparkscale.driver.begin.stream_options import options_of
from dagster_sparkscale.in_force.tuned import declared_limits
from tests.waiting import HANGS

MASTER = "spark://h:7077"


def declared(kind: type[Stream] = StructuredStream, **fields: object) -> Stream:
    given = {"name": "clicks", "program": "a.py", "batch_interval": "10s", **fields}
    return kind(**given)


def test_what_the_declaration_says() -> None:
    made = settings(
        declared(executor_cores=2, executor_memory="512M", driver_memory="2g"), 3, MASTER
    )
    assert made["spark.master"] == MASTER
    assert made["spark.app.name"] == made["spark.sparkscale.stream"] == "clicks"
    assert made["spark.executor.cores"] == "2"
    assert made["spark.executor.memory"] == "512m"
    assert made["spark.driver.memory"] == "2g"
    assert made["spark.sparkscale.epoch"] == "3"
    assert made["spark.sparkscale.batchIntervalMs"] == "10000"
    assert made["spark.ui.port"] == "0"
    assert made["spark.decommission.enabled"] == "true"
    assert "spark.cores.max" not in made
    assert "spark.executor.instances" not in made


def test_sparks_own_allocation_is_off_whatever_is_set_elsewhere() -> None:
    """As in spark-defaults.conf of the machine, over which settings of a submission win."""
    keys = ("spark.dynamicAllocation.enabled", "spark.streaming.dynamicAllocation.enabled")
    made = settings(declared(), 1, MASTER, common=dict.fromkeys(keys, "true"))
    assert {key: made[key] for key in keys} == dict.fromkeys(keys, "false")


def test_a_maximum_bounds_the_cores_unless_they_are_given() -> None:
    policy = RatioPolicy(max_executors=5)
    assert settings(declared(autoscale=policy, executor_cores=2), 1, MASTER)[
        "spark.cores.max"
    ] == str(10)
    given = declared(autoscale=policy, spark_conf={"spark.cores.max": 3})
    assert settings(given, 1, MASTER)["spark.cores.max"] == "3"


def test_the_streams_setting_wins_over_the_clusters_and_both_over_the_default() -> None:
    common = {"spark.ui.port": "4041", "spark.x": "cluster"}
    stream = declared(spark_conf={"spark.x": "stream", "spark.decommission.enabled": False})
    made = settings(stream, 1, MASTER, common)
    assert made["spark.ui.port"] == "4041"
    assert made["spark.x"] == "stream"
    assert made["spark.decommission.enabled"] == "false"


def test_what_is_set_for_one_start_wins_over_all() -> None:
    stream = declared(spark_conf={"spark.x": "stream"})
    more = {"spark.x": "once", "spark.app.name": "other", "spark.y": '{"a": "b c"}'}
    made = settings(stream, 1, MASTER, {"spark.y": "cluster"}, more=more)
    assert {key: made[key] for key in more} == more
    assert settings(stream, 1, MASTER)["spark.x"] == "stream"


@pytest.mark.parametrize(("kind", "set_for_queries"), [(StructuredStream, True), (DStream, False)])
def test_the_checkpoint_is_told(kind: type[Stream], set_for_queries: bool) -> None:
    made = settings(declared(kind, checkpoint_location="/c"), 1, MASTER)
    assert made["spark.sparkscale.checkpointLocation"] == "/c"
    assert ("spark.sql.streaming.checkpointLocation" in made) is set_for_queries


PARTITIONS = "spark.sql.shuffle.partitions"
MODE = "spark.scheduler.mode"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def stateful(state: dict[str, object] | None = None, **fields: object) -> Stream:
    made = State(**{"key_groups": 128, **(state or {})})  # type: ignore[arg-type]
    return declared(checkpoint_location="/c", state=made, **fields)


def test_key_groups_are_told_and_the_state_is_kept_where_spark_can_repartition_it() -> None:
    made = settings(stateful(), 1, MASTER)
    assert made["spark.sparkscale.state.keyGroups"] == "128"
    assert made[PROVIDER].endswith(".RocksDBStateStoreProvider")
    assert "spark.sparkscale.state.plainHash" not in made
    plain = settings(stateful({"plain_hash": True}), 1, MASTER)
    assert plain["spark.sparkscale.state.plainHash"] == "true"


def test_nothing_is_said_of_state_that_is_not_declared() -> None:
    made = settings(declared(checkpoint_location="/c"), 1, MASTER)
    assert not [key for key in made if "state" in key.lower() or key == PARTITIONS]


@pytest.mark.parametrize(
    ("fields", "partitions"),
    [
        ({"executors": 3}, "4"),
        ({"executors": 3, "executor_cores": 4}, "16"),
        ({"executors": 3, "executor_cores": 4, "spark_conf": {"spark.task.cpus": 2}}, "8"),
        ({"autoscale": RatioPolicy(max_executors=9)}, "16"),
        ({"autoscale": RatioPolicy(initial_executors=5)}, "8"),
        ({"autoscale": RatioPolicy(max_executors=500)}, "128"),
        ({"state": {"partitions": 32}}, "32"),
        ({"spark_conf": {PARTITIONS: 200}}, "200"),
    ],
)
def test_a_new_query_begins_with_a_number_of_partitions_that_divides_its_key_groups(
    fields: dict[str, object], partitions: str
) -> None:
    assert settings(stateful(**fields), 1, MASTER)[PARTITIONS] == partitions


def test_a_stream_with_state_has_its_batches_scheduled_beside_what_reads_its_state() -> None:
    assert settings(stateful(), 1, MASTER)[MODE] == "FAIR"
    assert settings(stateful(spark_conf={MODE: "FIFO"}), 1, MASTER)[MODE] == "FIFO"


def test_of_state_what_the_stream_says_wins_over_the_cluster_and_that_over_defaults() -> None:
    common = {PARTITIONS: "64", PROVIDER: "cluster.Provider"}
    made = settings(stateful(), 1, MASTER, common)
    assert (made[PARTITIONS], made[PROVIDER]) == ("64", "cluster.Provider")
    made = settings(stateful({"partitions": 32}), 1, MASTER, common)
    assert (made[PARTITIONS], made[PROVIDER]) == ("32", "cluster.Provider")
    own = {PROVIDER: "own.Provider", PARTITIONS: "16"}
    made = settings(stateful(spark_conf=own), 1, MASTER, common)
    assert (made[PARTITIONS], made[PROVIDER]) == ("16", "own.Provider")


BACKPRESSURE = "spark.sparkscale.backpressure"
ENABLED = "spark.streaming.backpressure.enabled"
INITIAL = "spark.streaming.backpressure.initialRate"
MAX_OFFSETS = "spark.sparkscale.options.clicks.maxOffsetsPerTrigger"


def test_nothing_is_said_of_limits_that_are_not_declared() -> None:
    for kind in (StructuredStream, DStream):
        made = settings(declared(kind, receivers=1) if kind is DStream else declared(), 1, MASTER)
        assert not [key for key in made if re.search("(?i)rate|backpressure|options|sources", key)]
        assert declared_limits(declared(kind)) == {}


def test_sources_are_told_their_limits_and_which_of_them_have_any() -> None:
    limits = {"clicks": SourceLimits(max_offsets_per_trigger=1000), "a-b": SourceLimits()}
    made = settings(declared(limits=limits), 1, MASTER)
    assert made[MAX_OFFSETS] == "1000"
    assert made["spark.sparkscale.sources"] == '["a-b", "clicks"]'
    assert options_of("clicks", made) == {"maxOffsetsPerTrigger": "1000"}
    assert options_of("a-b", made) == {}


def test_a_dstream_has_its_limits_as_spark_has_them_over_those_of_the_cluster() -> None:
    stream = declared(DStream, receivers=1, limits=StreamingLimits(max_rate=1000))
    common = {"spark.streaming.receiver.maxRate": "5", ENABLED: "true"}
    made = settings(stream, 1, MASTER, common)
    assert (made["spark.streaming.receiver.maxRate"], made[ENABLED]) == ("1000", "true")


def test_a_policy_is_told_as_the_driver_reads_it() -> None:
    policy = BackpressurePolicy(estimator="pid", max_rate=500, integral=0.5, sources=("a", "b"))
    told = plan_of(settings(declared(backpressure=policy), 1, MASTER)[BACKPRESSURE])
    assert asdict(told) == policy.model_dump()


@pytest.mark.parametrize(
    ("policy", "receivers", "first"),
    [
        ({}, 1, "100"),
        ({"initial_rate": 250.9}, 2, "250"),
        ({"min_rate": 0.5}, 1, "1"),
        ({}, 0, None),
        # Spark's own has none.
        ({"estimator": "pid"}, 1, None),
        ({"estimator": "pid", "initial_rate": 700}, 1, "700"),
        ({"estimator": "pid", "max_rate": 700}, 1, "700"),
        # There is one setting for all receivers, also for those that nobody limits later.
        ({"sources": ("receiver-1",)}, 2, None),
        ({"sources": ("receiver-1",)}, 1, "100"),
    ],
)
def test_receivers_begin_with_a_limit_and_spark_estimates_none(
    policy: dict[str, object], receivers: int, first: str | None
) -> None:
    made = BackpressurePolicy(**policy)  # type: ignore[arg-type]
    stream = declared(DStream, receivers=receivers, backpressure=made)
    told = settings(stream, 1, MASTER, {ENABLED: "true"})
    assert (told.get(INITIAL), told[ENABLED]) == (first, "false")


def test_receivers_beyond_those_declared_do_not_stay_at_what_limited_ones_begin_with() -> None:
    """The number may be raised later, to receivers that `sources` does not name."""
    free = "spark.sparkscale.receivers.initialRate"
    policy = BackpressurePolicy(sources=("receiver-0", "receiver-1"))
    made = settings(declared(DStream, receivers=2, backpressure=policy), 1, MASTER)
    assert (made[INITIAL], made[free]) == ("100", "")
    every = settings(declared(DStream, receivers=2, backpressure=BackpressurePolicy()), 1, MASTER)
    assert free not in every


def test_settings_of_one_start_win_over_all() -> None:
    more = {"spark.x": "once", "spark.sparkscale.epoch": "8", "spark.sparkscale.state.plan": "{}"}
    made = settings(declared(spark_conf={"spark.x": "stream"}), 1, MASTER, more=more)
    assert {key: made[key] for key in more} == more


def test_the_drivers_address() -> None:
    made = settings(declared(), 1, MASTER, driver_host="127.0.0.1")
    assert made["spark.driver.host"] == made["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.host" not in settings(declared(), 1, MASTER)


SHARING = {
    role: ["-XX:SharedArchiveFile=/a b.jsa", "-Xshare:auto"] for role in ("driver", "executor")
}
IN_ONE_LINE = '"-XX:SharedArchiveFile=/a b.jsa" -Xshare:auto'


def test_class_data_is_shared_and_the_users_java_options_stay_and_win() -> None:
    stream = declared(
        spark_conf={
            "spark.driver.defaultJavaOptions": "-Dx=1 -XX:+UseZGC",
            "spark.executor.extraJavaOptions": "-Dy=2",
        }
    )
    made = settings(stream, 1, MASTER, class_data=SHARING)
    assert made["spark.driver.defaultJavaOptions"] == f"{IN_ONE_LINE} -Dx=1 -XX:+UseZGC"
    assert made["spark.executor.defaultJavaOptions"] == IN_ONE_LINE
    assert made["spark.executor.extraJavaOptions"] == "-Dy=2"


def test_without_class_data_no_java_option_is_made() -> None:
    assert not [key for key in settings(declared(), 1, MASTER) if "JavaOptions" in key]


@pytest.mark.parametrize("kind", ["default", "extra"])
@pytest.mark.parametrize(
    "own", ["-Xshare:off", "-XX:SharedArchiveFile=/own.jsa", "-XX:ArchiveClassesAtExit=/own.jsa"]
)
def test_a_user_who_decides_about_class_data_is_left_alone(kind: str, own: str) -> None:
    key = f"spark.executor.{kind}JavaOptions"
    made = settings(declared(spark_conf={key: own}), 1, MASTER, class_data=SHARING)
    assert made[key] == own
    assert sum("spark.executor" in name and "JavaOptions" in name for name in made) == 1
    assert made["spark.driver.defaultJavaOptions"] == IN_ONE_LINE


def test_the_file_is_plain_ascii_with_one_line_a_setting() -> None:
    text = properties({"spark.b": " \\d+#=:\u00e9\U0001f600\n", "spark.a b": "!x"})
    assert text == ("spark.a\\ b=!x\n" + "spark.b=\\ \\\\d+#=:\\u00e9\\ud83d\\ude00\\n\n")


@given(
    st.dictionaries(
        st.text(min_size=1).map(lambda text: "spark." + text), st.text(), min_size=1, max_size=5
    )
)
def test_no_value_makes_a_second_line(content: dict[str, str]) -> None:
    text = properties(content)
    assert text.isascii()
    assert len(text.splitlines()) == len(content)


# As the driver's JVM reads it: java.util.Properties, from UTF-8.
_READER = """
import java.io.*; import java.util.*; import java.nio.charset.StandardCharsets;
class R { public static void main(String[] a) throws Exception {
    Properties p = new Properties();
    p.load(new InputStreamReader(new FileInputStream(a[0]), StandardCharsets.UTF_8));
    for (String k : new TreeSet<String>(p.stringPropertyNames())) {
        for (String s : new String[] {k, p.getProperty(k)}) {
            StringBuilder b = new StringBuilder();
            for (char c : s.toCharArray()) b.append(String.format("%04x", (int) c));
            System.out.println(b);
        }
    }
} }
"""


def test_a_jvm_reads_what_was_written(tmp_path: Path) -> None:
    content = {
        f"spark.k{character}": f" a{character}b {character}" for character in "\\=:#! \té中😀'\"$"
    }
    content |= {
        "spark.empty": "",
        "spark.#x": "#",
        "spark.regex": r"(?i)\bsecret\d\\",
        "spark.u": "\\u0041",
    }
    (tmp_path / "p").write_text(properties(content))
    (tmp_path / "R.java").write_text(_READER)
    command = [str(java_home() / "bin/java"), str(tmp_path / "R.java"), str(tmp_path / "p")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    if done.returncode and "jdk.compiler" in done.stderr:
        pytest.skip("this Java has no compiler")
    assert done.returncode == 0, done.stderr
    lines = [bytes.fromhex(line).decode("utf-16-be") for line in done.stdout.split("\n")[:-1]]
    assert dict(zip(lines[::2], lines[1::2], strict=True)) == content


def test_the_checkpoint_of_the_queries_is_the_declared_one() -> None:
    made = settings(declared(checkpoint_location="/c"), 1, MASTER)
    assert made["spark.sql.streaming.checkpointLocation"] == "/c"


@pytest.mark.parametrize(
    ("interval", "milliseconds"), [("1ms", "1"), ("100us", "1"), (2.5, "2500")]
)
def test_the_interval_is_told_in_whole_milliseconds(interval: object, milliseconds: str) -> None:
    made = settings(declared(batch_interval=interval), 1, MASTER)
    assert made["spark.sparkscale.batchIntervalMs"] == milliseconds


def test_what_needs_no_escape_can_be_read_in_the_file_as_it_is() -> None:
    assert properties({"spark.X": "a ~b"}) == "spark.X=a ~b\n"


def test_an_environments_bytes_that_are_no_text_do_not_keep_a_driver_from_its_start() -> None:
    assert properties({"k": b"\xff".decode(errors="surrogateescape")}) == "k=\\udcff\n"
