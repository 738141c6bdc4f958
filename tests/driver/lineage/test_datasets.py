"""Datasets have the names that OpenLineage's conventions give them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.lineage.datasets import Dataset, of_path, read_from, written_to


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("s3a://lake/clicks/2026/", ("s3://lake", "clicks/2026")),
        ("s3://lake", ("s3://lake", "/")),
        ("gs://lake/clicks", ("gs://lake", "clicks")),
        (
            "abfs://in@acc.dfs.core.windows.net/a",
            ("abfss://in@acc.dfs.core.windows.net", "a"),
        ),
        ("hdfs://nn:8020/data/in", ("hdfs://nn:8020", "/data/in")),
        ("file:///data/in", ("file", "/data/in")),
        ("file:/data/in", ("file", "/data/in")),
        ("/data/in", ("file", "/data/in")),
        ("/", ("file", "/")),
        ("dbfs:/mnt/in", ("dbfs", "/mnt/in")),
        ("s3a://key:secret@lake/in", ("s3://lake", "in")),
        (
            "abfss://user:secret@acc.dfs.core.windows.net/a",
            ("abfss://acc.dfs.core.windows.net", "a"),
        ),
        ("hdfs://user:secret@nn:8020/data/in", ("hdfs://nn:8020", "/data/in")),
        ("/data/in/dt=*/*.json", ("file", "/data/in")),
        ("s3a://lake/{a,b}/c", ("s3://lake", "/")),
        ("s3a://lake/of/ana@example.com", ("s3://lake", "of/ana@example.com")),
    ],
)
def test_a_path_is_a_dataset_of_its_store(path: str, named: tuple[str, str]):
    assert of_path(path) == Dataset(*named)


def test_a_path_without_a_scheme_is_on_the_default_file_system():
    assert of_path("/data/in", "hdfs://nn:8020") == ("hdfs://nn:8020", "/data/in")
    assert of_path("hdfs:///data/in", "hdfs://nn:8020") == ("hdfs://nn:8020", "/data/in")
    assert of_path("hdfs:/data/in", "hdfs://me:it@nn:8020") == ("hdfs://nn:8020", "/data/in")
    assert of_path("s3a:///data/in", "s3a://lake") == ("s3://lake", "data/in")
    assert of_path("file:///data/in", "hdfs://nn:8020") == ("file", "/data/in")
    assert of_path("/in", "s3a://lake/") == ("s3://lake", "in")
    assert of_path("data/in") is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (
            {"kafka.bootstrap.servers": "b1:9092, b2:9092", "subscribe": "clicks, views"},
            [("kafka://b1:9092", "clicks"), ("kafka://b1:9092", "views")],
        ),
        (
            {"Kafka.Bootstrap.Servers": "SASL_SSL://b:9093", "assign": '{"clicks": [0, 1]}'},
            [("kafka://b:9093", "clicks")],
        ),
        (
            {"kafka.bootstrap.servers": "user:secret@b:9092,c:9092", "subscribe": "clicks"},
            [("kafka://b:9092", "clicks")],
        ),
        (
            {"kafka.bootstrap.servers": "[::1]:9092", "subscribe": "c"},
            [("kafka://[::1]:9092", "c")],
        ),
        ({"kafka.bootstrap.servers": "b:9092", "subscribePattern": "cl.*"}, []),
        ({"kafka.bootstrap.servers": "b:9092", "assign": "{"}, []),
        ({"subscribe": "clicks"}, []),
    ],
)
def test_topics_of_kafka(options: dict[str, str], named: list[tuple[str, str]]):
    assert [*read_from("kafka", options)] == named


def test_what_a_writer_says_is_written():
    to = {"kafka.bootstrap.servers": "b:9092", "topic": "counts"}
    assert written_to("kafka", to) == (("kafka://b:9092", "counts"),)
    assert written_to("kafka", {"kafka.bootstrap.servers": "b:9092"}) == ()
    assert written_to("delta", {"path": "s3a://lake/t"}) == (("s3://lake", "t"),)
    assert written_to(None, {"PATH": "/out"}) == (("file", "/out"),)
    assert written_to("foreachBatch", {"path": "/out"}) == ()
    assert written_to("console", {}) == ()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"streamName": "c", "region": "eu-west-1"}, "kinesis://kinesis.eu-west-1.amazonaws.com"),
        ({"kinesis.streamName": "c", "kinesis.region": "eu-west-1"}, "kinesis://kinesis.eu-west-1.amazonaws.com"),
        ({"streamName": "c", "endpointUrl": "https://local:443/"}, "kinesis://local"),
        ({"streamName": "c", "endpointUrl": "http://user:pw@local:4566"}, "kinesis://local:4566"),
    ],
)  # fmt: skip
def test_streams_of_kinesis_are_named_as_openlineage_for_spark_does(
    options: dict[str, str], named: str
):
    assert read_from("kinesis-direct", options) == ((named, "c"),)


def test_kinesis_without_a_place_is_not_named():
    assert read_from("kinesis-direct", {"streamName": "c"}) == ()
    assert read_from("aws-kinesis", {"region": "eu-west-1"}) == ()


def test_files_are_known_by_the_name_of_a_class_too():
    format = "org.apache.spark.sql.execution.datasources.json.JsonFileFormat"
    assert read_from(format, {"path": "/in"}) == (("file", "/in"),)
    assert read_from("rate", {"path": "/in"}) == ()


@given(
    st.sampled_from(["s3a", "gs", "abfss", "wasbs", "hdfs", "http", "dbfs", "SASL_SSL", ""]),
    st.text(max_size=5).filter(lambda text: "/" not in text),
    st.sampled_from(["sec", "9"]),
    st.sampled_from(["", "/", ",", "@", ":", "%2F"]),
    st.sampled_from(["place", "acc.example:9092", ""]),
)
def test_no_password_gets_into_a_name(scheme: str, user: str, begin: str, within: str, host: str):
    url = f"{scheme}://{user}:{begin}{within}ret@{host}/in"
    options = {
        "path": url,
        "kafka.bootstrap.servers": url.removeprefix("://"),
        "subscribe": "clicks",
        "streamName": "clicks",
        "endpointUrl": url,
    }
    found = [
        *(
            each
            for kind in ("json", "kafka", "kinesis-direct")
            for each in read_from(kind, options)
        ),
        *read_from("json", {"path": "/in"}, url),
    ]
    for namespace, name in found:
        assert not re.search("sec|:9$|ret", f"{namespace}\n{name}", re.MULTILINE)


TEXTS = st.text(max_size=40)


@given(
    st.sampled_from(["kafka", "kinesis-direct", "json", "rate"]) | TEXTS,
    st.dictionaries(
        st.sampled_from(
            [
                "path",
                "subscribe",
                "assign",
                "topic",
                "streamName",
                "endpointUrl",
                "region",
                "kafka.bootstrap.servers",
            ]
        ),
        TEXTS,
    ),
    st.sampled_from(["file:///", "hdfs://nn:8020", "s3a://lake", "", "x"]),
)
def test_whatever_options_say_a_dataset_has_two_names_or_there_is_none(
    format: str, options: dict[str, str], default_fs: str
):
    for found in (
        read_from(format, options, default_fs),
        written_to(format, options, default_fs),
    ):
        assert all(namespace and name for namespace, name in found)
