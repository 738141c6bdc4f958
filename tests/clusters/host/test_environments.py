"""What of Dagster's environment is handed on to drivers and workers, and what stays with it."""

import pytest

from dagster_sparkscale.clusters.host.environments import for_driver, for_worker

OF_THE_HOST = {
    "PATH": "/bin",
    "HOME": "/home/dagster",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "TMPDIR": "/scratch",
    "XDG_CACHE_HOME": "/cache",
    "LD_LIBRARY_PATH": "/opt/lib",
    "OMP_NUM_THREADS": "1",
    "VIRTUAL_ENV": "/venv",
    "JAVA_HOME": "/java",
    "JDK_JAVA_OPTIONS": "-Xss4m",
    "HADOOP_CONF_DIR": "/etc/hadoop",
    "KRB5CCNAME": "/tmp/krb5cc",
    "AWS_SECRET_ACCESS_KEY": "k",
    "AZURE_CLIENT_ID": "i",
    "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
    "SSL_CERT_FILE": "/ca.pem",
    "REQUESTS_CA_BUNDLE": "/ca.pem",
    "HTTPS_PROXY": "http://proxy",
    "no_proxy": "localhost",
}
OF_THE_PROCESS = {
    "PYTHONPATH": "/code",
    "SPARK_CONF_DIR": "/etc/spark",
    "PYSPARK_PYTHON": "/python",
}
OF_DAGSTER = {
    "DAGSTER_HOME": "/dagster",
    "DAGSTER_PG_PASSWORD": "hunter2",
    "DAGSTER_HTTPS_PROXY": "http://user:hunter2@proxy",
    "POSTGRES_PASSWORD": "hunter2",
    "DATABASE_URL": "postgresql://dagster:hunter2@db",
    "SLACK_TOKEN": "xoxb",
    "KAFKA_PASSWORD": "hunter2",
    "MY_AWS_SECRET": "hunter2",
    "path": "of another name",
}
ALL = {**OF_THE_HOST, **OF_THE_PROCESS, **OF_DAGSTER}


def test_a_driver_has_what_spark_needs_and_nothing_of_dagsters() -> None:
    assert for_driver(ALL) == {**OF_THE_HOST, **OF_THE_PROCESS}


def test_a_worker_has_what_the_host_gives_and_nothing_of_the_process_that_starts_it() -> None:
    assert for_worker(ALL) == OF_THE_HOST


@pytest.mark.parametrize(
    ("named", "more"),
    [
        (["KAFKA_PASSWORD"], {"KAFKA_PASSWORD"}),
        (["KAFKA_*", "SLACK_TOKEN"], {"KAFKA_PASSWORD", "SLACK_TOKEN"}),
        (["kafka_*", "AFKA", "NOT_THERE"], set()),
        (["DAGSTER_HOME"], {"DAGSTER_HOME"}),
    ],
)
def test_what_is_named_is_handed_on_to_both(named: list[str], more: set[str]) -> None:
    given = {name: ALL[name] for name in more}
    assert for_driver(ALL, named) == {**OF_THE_HOST, **OF_THE_PROCESS, **given}
    assert for_worker(ALL, named) == {**OF_THE_HOST, **given}


@pytest.mark.parametrize(
    "name",
    [
        *("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_CONNECT_MODE"),
        *("SPARK_LOCAL_REMOTE", "SPARK_REMOTE", "SPARK_TESTING", "_SPARK_AUTH_SECRET"),
        *("SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED"),
    ],
)
def test_what_would_make_a_driver_part_of_another_spark_is_never_handed_on(name: str) -> None:
    given = {"PATH": "/bin", name: "of a notebook that Dagster was started in"}
    for named in ((), (name,), ("*",)):
        assert for_driver(given, named) == for_worker(given, named) == {"PATH": "/bin"}


def test_what_was_given_is_left_as_it_is() -> None:
    given = dict(ALL)
    for_worker(given, ["KAFKA_*"])["PATH"] = "/elsewhere"
    assert given == ALL
