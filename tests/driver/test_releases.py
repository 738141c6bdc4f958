"""Releases of Spark: which there is, and what is said of one that won't do."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrameReader
from pyspark.sql.streaming import DataStreamReader

from dagster_sparkscale.driver.spark import releases
from dagster_sparkscale.driver.spark.releases import TooOld, minor, need, release_at
from dagster_sparkscale.driver.spark.session import CannotStart, refuse_if_too_old


def spark_of(folder: Path, jar: str) -> Path:
    (folder / "jars").mkdir(parents=True)
    for name in ("spark-catalyst_2.13-1.0.jar", jar, "spark-corelike.jar"):
        (folder / "jars" / name).touch()
    return folder


@pytest.mark.parametrize("version", ["3.5", "3.5.0", "3.10.1", "4.0.0-SNAPSHOT", "10.0", "unknown"])
def test_one_that_is_new_enough_or_unknown_is_let_pass(version: str) -> None:
    need("a stream", "3.5", version)


@pytest.mark.parametrize("version", ["3.4.9", "2.13.1", "3.4.1-amzn-0"])
def test_an_older_one_is_told_with_what_is_needed(version: str) -> None:
    with pytest.raises(TooOld) as caught:
        need("a stream", "3.5", version)
    assert str(caught.value) == f"a stream needs Spark 3.5 or newer; this is Spark {version}"


@pytest.mark.parametrize(
    ("jar", "version"),
    [
        ("spark-core_2.13-4.3.0.jar", "4.3.0"),
        ("spark-core_2.12-3.5.1-amzn-0.jar", "3.5.1-amzn-0"),
        ("spark-core_2.13.jar", None),
    ],
)
def test_it_is_known_by_a_jar(jar: str, version: str | None, tmp_path: Path) -> None:
    assert release_at(spark_of(tmp_path / "spark", jar)) == version
    assert release_at(tmp_path / "nowhere") is None


def test_the_minor_release() -> None:
    assert [minor(each) for each in ("4.3.1", "3.5.1-amzn-0", "4.0")] == ["4.3", "3.5", "4.0"]


class TestDriver:
    def test_one_that_is_too_old_is_refused_wherever_it_is(self, tmp_path: Path) -> None:
        old = spark_of(tmp_path / "old", "spark-core_2.12-3.4.1.jar")
        with pytest.raises(CannotStart, match=rf"3\.5 or newer; .* 3\.4\.1, in SPARK_HOME={old}"):
            refuse_if_too_old("4.3.0", str(old))
        with pytest.raises(CannotStart, match=r"this is Spark 3\.4\.2, by the package pyspark"):
            refuse_if_too_old("3.4.2", None)

    def test_jars_of_another_release_than_the_package_are_told(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        home = str(spark_of(tmp_path / "spark", "spark-core_2.13-4.1.4.jar"))
        for same in ("4.1.0", "4.1.4"):
            refuse_if_too_old(same, home)
        refuse_if_too_old("4.3.0", None)
        refuse_if_too_old("4.3.0", str(tmp_path / "nowhere"))
        assert capfd.readouterr().err == ""
        refuse_if_too_old("4.3.0", home)
        said = f"pyspark is 4.3.0, and SPARK_HOME={home} is Spark 4.1.4"
        assert said in capfd.readouterr().err


class TestLacking:
    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What Spark itself is asked for by programs; it is only noted."""
        asked: list[str] = []
        for reader in (DataFrameReader, DataStreamReader):
            monkeypatch.setattr(reader, "format", lambda self, source: asked.append(source))
        return asked

    @pytest.mark.parametrize(
        ("version", "lacks"),
        [
            ("3.5.9", {"read": "4.0", "readStream": "4.2"}),
            ("4.1.4", {"readStream": "4.2"}),
            ("4.2.0", {}),
        ],
    )
    def test_a_program_is_told_where_it_asks_and_for_nothing_else(
        self,
        version: str,
        lacks: dict[str, str],
        asked: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("pyspark.__version__", version)
        releases.say_where_asked_for()
        readers = {"read": DataFrameReader, "readStream": DataStreamReader}
        for how, kind in readers.items():
            reader = object.__new__(kind)
            reader.format("rate")
            if least := lacks.get(how):
                with pytest.raises(TooOld) as caught:
                    reader.format("kinesis-direct")
                assert str(caught.value) == (
                    f'spark.{how}.format("kinesis-direct") needs Spark {least} or newer; '
                    f"this is Spark {version}"
                )
            else:
                reader.format(source="kinesis-direct")
        assert asked.count("rate") == 2
        assert asked.count("kinesis-direct") == 2 - len(lacks)
