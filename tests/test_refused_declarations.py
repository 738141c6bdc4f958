"""What is wrong with a declaration is said when it is loaded, with the stream's name."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.definitions import build_defs
from tests.fakes import structured
from tests.in_memory.cluster import World


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"group": "a b"}, "group = 'a b': "),
        ({"owners": ["nobody"]}, r"owners = \('nobody',\): .*Owner must be an email address or"),
        ({"tags": {"a b!": "c"}}, r"tags = \{'a b!': 'c'\}: .*Allowed characters"),
        ({"kinds": {"A b"}}, r"kinds = frozenset\(\{'A b'\}\): "),
        ({"deps": ["clicks"]}, r"deps = \('clicks',\): Asset \"clicks\" depends on itself"),
        ({"key_prefix": ["a/b"]}, r"key_prefix = \('a/b',\): "),
        ({"name": "class"}, "name = 'class': "),
        ({"deps": [1]}, r"deps = \(1,\): each must be the name, the key or the definition"),
        ({"automation_condition": "eager"}, "automation_condition = 'eager': must be a dagster.Au"),
        ({"automation_condition": True}, "automation_condition = True: must be a dagster.Automat"),
    ],
)
def test_what_dagster_refuses_of_an_asset_names_stream_and_field(
    fields: dict[str, Any], fault: str
) -> None:
    declared = {"name": "clicks", **fields}
    with pytest.raises(DeclarationError, match=f"^StructuredStream '{declared['name']}': {fault}"):
        build_defs([structured("other"), structured(**declared)], World().cluster)


def test_what_the_embedded_cluster_can_never_give_is_refused(tmp_path: Path) -> None:
    declared = structured(autoscale=RatioPolicy(max_executors=100))
    cluster = LocalCluster(state_dir=str(tmp_path))
    with pytest.raises(DeclarationError, match=r"^StructuredStream 'clicks': max_executors = 100"):
        build_defs([declared], cluster)


def test_streams_without_a_cluster_are_refused() -> None:
    with pytest.raises(
        DeclarationError, match="cluster: missing; a cluster manager, such as LocalCluster"
    ):
        build_defs([structured()])  # type: ignore[call-arg]


def test_a_program_that_is_not_there_is_told_when_it_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And not refused: code may be loaded elsewhere, as where an image is built."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.py").touch()
    streams = [structured("clicks", program="jobs/x.py"), structured("b", program="there.py")]
    build_defs(streams, LocalCluster(state_dir=str(tmp_path)))
    assert [record.getMessage() for record in caplog.records] == [
        f"StructuredStream 'clicks': program = 'jobs/x.py': there is no file {tmp_path}/jobs/x.py"
    ]


def test_many_whose_program_is_not_there_are_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    streams = [structured(f"s{number}", program="jobs/x.py") for number in range(1200)]
    build_defs([*streams, structured("b", program="y.py")], LocalCluster(state_dir=str(tmp_path)))
    assert [record.getMessage() for record in caplog.records] == [
        "1,200 streams (s0, s1, s2 and 1,197 more): program = 'jobs/x.py': there is no file "
        f"{tmp_path}/jobs/x.py",
        f"StructuredStream 'b': program = 'y.py': there is no file {tmp_path}/y.py",
    ]


class TestNamesInTheLaunchpad:
    def refused(self, defs: dg.Definitions, job: str = "rescale") -> str:
        config = {"ops": {job: {"config": {"stream": "clikcs", "target": 3}}}}
        with pytest.raises(dg.DagsterInvalidConfigError) as refusal:
            defs.resolve_job_def(job).execute_in_process(run_config=config)
        return str(refusal.value)

    def test_one_that_does_not_exist_is_refused_with_those_that_do(self) -> None:
        defs = build_defs([structured("clicks"), structured("orders")], World().cluster)
        assert "not in enum type [clicks, orders] got clikcs" in self.refused(defs)

    def test_of_many_some_are_shown(self) -> None:
        streams = [structured(f"s{number}") for number in range(25)]
        said = self.refused(build_defs(streams, World().cluster))
        assert "[s0, s1, " in said and ", s19 and 5 more, " in said and "s20" not in said

    def test_two_clusters_may_have_streams_of_the_same_names(self) -> None:
        worlds = World(), World()
        declared = [structured(key_prefix=["a"])], [structured(key_prefix=["b"])]
        defs = dg.Definitions.merge(
            build_defs(declared[0], worlds[0].cluster),
            build_defs(declared[1], worlds[1].cluster, cluster_key="west"),
        )
        for job, world in (("rescale", worlds[0]), ("rescale_west", worlds[1])):
            world.run(structured())
            config = {"ops": {job: {"config": {"stream": "clicks", "target": 3}}}}
            result = defs.resolve_job_def(job).execute_in_process(
                run_config=config, instance=dg.DagsterInstance.ephemeral()
            )
            assert result.success and world.streams["clicks"].requested == 3
