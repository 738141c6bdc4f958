"""What drivers on this host need: told as it is, with what to do, and nothing changed."""

import os
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.host.conditions import conditions_here, in_the_clear
from dagster_sparkscale.clusters.standalone.cluster import StandaloneCluster
from tests.fakes import structured


def told(state: Path, subject: str, java: str | None = None, program: str = __file__) -> Condition:
    found = conditions_here(state, java, [structured(program=program)])
    (condition,) = (each for each in found if each.subject == subject)
    return condition


class TestStateFolder:
    def test_one_that_is_there(self, tmp_path: Path) -> None:
        (tmp_path / "streams").mkdir(mode=0o700)
        assert told(tmp_path, "state folder") == Condition("state folder", str(tmp_path))

    def test_one_that_is_yet_to_be_made_is_not_made(self, tmp_path: Path) -> None:
        state = tmp_path / "a" / "b"
        condition = told(state, "state folder")
        assert not condition.wrong
        assert condition.text == f"{state}, made when a stream is first started"
        assert list(tmp_path.iterdir()) == []

    def test_one_that_others_may_write_to(self, tmp_path: Path) -> None:
        (tmp_path / "streams").mkdir()
        (tmp_path / "streams").chmod(0o777)
        condition = told(tmp_path, "state folder")
        assert condition.wrong
        assert "users other than its owner" in condition.text
        assert condition.cure is not None
        assert condition.cure.startswith(f"`chmod go-w {tmp_path}/streams`")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_one_that_can_not_be_made(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        assert told(tmp_path / "state", "state folder").wrong

    def test_one_below_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert told(tmp_path / "file" / "state", "state folder").wrong


class TestSpark:
    def test_the_one_of_this_python(self, tmp_path: Path) -> None:
        condition = told(tmp_path, "Spark")
        assert not condition.wrong
        assert condition.text.startswith(f"{metadata.version('pyspark')}, /")

    def test_one_that_is_not_supported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(metadata, "version", lambda name: "2.4.8")
        condition = told(tmp_path, "Spark")
        assert condition.text == "2.4.8, which this release does not support"
        assert condition.cure is not None and condition.cure.startswith("`pip install 'pyspark")

    def test_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dagster_sparkscale.clusters.java.find_spec", lambda name: None)
        condition = told(tmp_path, "Spark")
        assert condition.wrong and "pip install" in (condition.cure or "")

    def test_one_that_a_stream_names_for_itself_and_that_is_too_old(self, tmp_path: Path) -> None:
        (tmp_path / "old/jars").mkdir(parents=True)
        (tmp_path / "old/jars/spark-core_2.12-3.4.1.jar").touch()
        declared = structured(program=__file__, env={"SPARK_HOME": str(tmp_path / "old")})
        found = conditions_here(tmp_path, None, [declared])
        [condition] = [each for each in found if each.subject == "Spark" and each.wrong]
        assert condition.text == "of clicks: too old"
        assert condition.cure is not None and "this is Spark 3.4.1, in" in condition.cure


class TestJava:
    def java(self, home: Path, version: str) -> Path:
        (home / "bin").mkdir(parents=True)
        (home / "bin/java").touch()
        (home / "release").write_text(
            f'JAVA_VERSION="{version}"\nMODULES="java.base jdk.incubator.vector"\n'
        )
        return home

    def test_one_that_will_do(self, tmp_path: Path) -> None:
        home = self.java(tmp_path / "jdk", "17.0.15")
        assert told(tmp_path, "Java", java=str(home)) == Condition("Java", f"17, {home}")

    def test_one_that_is_too_old(self, tmp_path: Path) -> None:
        condition = told(tmp_path, "Java", java=str(self.java(tmp_path / "jdk", "1.8.0")))
        assert condition.wrong
        assert condition.cure is not None and "is Java 8" in condition.cure


def test_a_program_that_is_gone(tmp_path: Path) -> None:
    condition = told(tmp_path, "program", program=str(tmp_path / "gone.py"))
    assert condition.wrong
    assert f"there is no file {tmp_path / 'gone.py'}" in condition.text


@pytest.mark.parametrize(
    ("name", "fault"),
    [(f"{'x' * 300}.py", "can't look at it: File name too long"), ("folder.py", "is no file")],
    ids=["can't be looked at", "is a folder"],
)
def test_a_program_that_is_none(tmp_path: Path, name: str, fault: str) -> None:
    (tmp_path / "folder.py").mkdir()
    condition = told(tmp_path, "program", program=str(tmp_path / name))
    assert condition.wrong
    assert fault in condition.text


def test_programs_that_are_there_take_no_line(tmp_path: Path) -> None:
    found = conditions_here(tmp_path, None, [structured(program=__file__)])
    assert "program" not in [condition.subject for condition in found]


class TestAgents:
    @pytest.mark.parametrize("bind", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
    def test_on_the_loopback_they_need_no_tls(self, bind: str) -> None:
        assert list(in_the_clear(bind, False)) == []

    @pytest.mark.parametrize("bind", ["0.0.0.0", "::", "10.0.0.5", "spark-1", ""])
    def test_elsewhere_it_is_told_that_they_speak_none(self, bind: str) -> None:
        (condition,) = in_the_clear(bind, False)
        assert not condition.wrong and condition.cure
        assert f"at {bind} without TLS" in condition.text
        assert list(in_the_clear(bind, True)) == []

    def test_a_cluster_has_it_wherever_its_agents_are_not_on_the_loopback(
        self, tmp_path: Path
    ) -> None:
        def cures(**fields: Any) -> list[str | None]:
            cluster = StandaloneCluster(master="spark://h:7077", state_dir=str(tmp_path), **fields)
            return [each.cure for each in cluster.conditions(()) if each.subject == "agents"]

        assert cures() == cures(agent_bind="0.0.0.0") == []
        assert cures(agent_bind="0.0.0.0", agent_tls=False) == [
            "leave agent_tls = False out, then restart the streams"
        ]
