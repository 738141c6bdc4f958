"""Which streams a command is about: found as Dagster finds its definitions."""

import sys

import pytest

from tests.cli.terminal import Terminal
from tests.fakes import structured
from tests.in_memory.cluster import World


def logs_of(terminal: Terminal, *words: str) -> str:
    """What `logs` finds of `clicks`: a command that loads a code location, and no more."""
    done = terminal.type("logs", "clicks", *words)
    assert done.exit_code == 0, done.output
    return done.output


FOUND = "driver 1 of clicks is running"


class TestWhereTheDefinitionsAre:
    def test_a_file(self, terminal: Terminal) -> None:
        assert FOUND in logs_of(terminal, "-f", "definitions.py")

    def test_a_module(self, terminal: Terminal) -> None:
        (terminal.folder / "team").mkdir()
        terminal.declare(file="team/streams.py")
        assert FOUND in logs_of(terminal, "-m", "team.streams")

    def test_an_attribute_among_others(self, terminal: Terminal) -> None:
        path = terminal.folder / "definitions.py"
        path.write_text(f"{path.read_text()}\nimport dagster as dg\nother = dg.Definitions()\n")
        assert FOUND in logs_of(terminal, "-f", "definitions.py", "-a", "defs")

    def test_a_workspace_in_the_current_folder(self, terminal: Terminal) -> None:
        (terminal.folder / "workspace.yaml").write_text(
            "load_from:\n  - python_file:\n      relative_path: definitions.py\n"
            "      location_name: web\n"
        )
        assert FOUND in logs_of(terminal)
        assert terminal.type("start", "orders").exit_code == 0
        assert terminal.world.records["orders"].owner == "web/spark_cluster"

    @pytest.mark.parametrize(
        "block",
        [
            '[tool.dagster]\nmodule_name = "team.streams"\n',
            '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "team"\n'
            'code_location_target_module = "team.streams"\n',
        ],
    )
    def test_a_pyproject_in_the_current_folder(self, terminal: Terminal, block: str) -> None:
        (terminal.folder / "team").mkdir()
        terminal.declare(file="team/streams.py")
        (terminal.folder / "pyproject.toml").write_text(block)
        assert FOUND in logs_of(terminal)

    def test_definitions_that_a_function_makes_and_merges(self, terminal: Terminal) -> None:
        path = terminal.folder / "definitions.py"
        text = path.read_text().replace("defs = build_defs(", "streams = lambda: build_defs(")
        path.write_text(
            f"{text}\nimport dagster as dg\n\n@dg.definitions\ndef defs():\n"
            "    more = dg.Definitions(assets=[dg.AssetSpec('click_files')])\n"
            "    return dg.Definitions.merge(more, streams())\n"
        )
        assert FOUND in logs_of(terminal, "-f", "definitions.py")

    def test_what_its_functions_import_later_is_found(self, terminal: Terminal) -> None:
        (terminal.folder / "lookup.py").write_text("PORT = '9099'\n")
        path = terminal.folder / "definitions.py"
        path.write_text(
            path.read_text()
            + "\nfrom dagster_sparkscale import StructuredStream, streaming_asset\n"
            "@streaming_asset(StructuredStream, program='jobs/x.py', batch_interval=10)\n"
            "def late():\n    import lookup\n    return [lookup.PORT]\n"
            f"defs = build_defs([late], MemoryCluster(world='{terminal.world.key}'))\n"
        )
        seen = []
        terminal.world.on_check = lambda stream: seen.extend(stream.program_arguments())
        terminal.world.run(structured("late"))
        sys.path[:] = [place for place in sys.path if place not in ("", str(terminal.folder))]
        done = terminal.ask("restart", "late")
        assert done.exit_code == 0, done.output
        assert seen == ["9099"]

    def test_none_at_all(self, terminal: Terminal) -> None:
        done = terminal.type("logs", "clicks")
        assert done.exit_code == 2
        assert "no code location: name one by -f definitions.py or -m" in done.stderr

    def test_a_file_that_is_broken_says_where(self, terminal: Terminal) -> None:
        (terminal.folder / "definitions.py").write_text("import nonsense_that_is_not_there\n")
        done = terminal.ask("logs", "clicks")
        assert done.exit_code == 1
        assert "code location 'definitions.py' can't be loaded: " in done.stderr
        assert "nonsense_that_is_not_there" in done.stderr

    def test_one_without_streams(self, terminal: Terminal) -> None:
        (terminal.folder / "definitions.py").write_text(
            "import dagster as dg\ndefs = dg.Definitions()\n"
        )
        done = terminal.ask("logs", "clicks")
        assert done.exit_code == 1
        assert "has no streams: they are declared by build_defs" in done.stderr

    @pytest.mark.parametrize(
        ("entry", "text"),
        [
            ("grpc_server:\n      port: 4266\n      location_name: far", "'far' runs as a server"),
            (
                "python_file:\n      relative_path: definitions.py\n"
                "      executable_path: /opt/other/bin/python\n      location_name: far",
                "`/opt/other/bin/python -m dagster_sparkscale`",
            ),
        ],
    )
    def test_one_that_can_not_be_loaded_here(
        self, terminal: Terminal, entry: str, text: str
    ) -> None:
        (terminal.folder / "workspace.yaml").write_text(f"load_from:\n  - {entry}\n")
        done = terminal.type("logs", "clicks")
        assert done.exit_code == 1
        assert text in done.stderr

    def test_the_variables_of_dagster_are_there(self, terminal: Terminal) -> None:
        """Of `.env`, as `dg dev` and code servers read it."""
        (terminal.folder / ".env").write_text("SPARKSCALE_TEST_CLICKS=clicks\n")
        terminal.declare('scaled(__import__("os").environ["SPARKSCALE_TEST_CLICKS"])')
        assert FOUND in logs_of(terminal, "-f", "definitions.py")


class TestSeveralClusters:
    @pytest.fixture
    def far(self, terminal: Terminal) -> World:
        """A second cluster in the same code location, with `clicks`, too, and `visits`."""
        world = World()
        path = terminal.folder / "definitions.py"
        path.write_text(
            f"{path.read_text()}\nimport dagster as dg\ndefs = dg.Definitions.merge(\n    defs,\n"
            "    build_defs([structured('clicks', key_prefix=('far',)), structured('visits')],\n"
            f"        MemoryCluster(world='{world.key}'), cluster_key='far'),\n)\n"
        )
        world.run(structured("visits"))
        world.run(structured("clicks"))
        return world

    def test_each_is_found_by_its_streams(self, terminal: Terminal, far: World) -> None:
        assert terminal.ask("stop", "visits").exit_code == 0
        assert far.calls[-1] == "stop visits gracefully"
        assert terminal.run().job_name == "stop_far"

    def test_a_stream_of_both_needs_the_cluster(self, terminal: Terminal, far: World) -> None:
        done = terminal.ask("stop", "clicks")
        assert done.exit_code == 2
        assert (
            "stream = 'clicks': is on several clusters, definitions.py/spark_cluster, "
            "definitions.py/far: name one by --cluster"
        ) in " ".join(done.stderr.split())
        assert terminal.ask("stop", "clicks", "--cluster", "far").exit_code == 0
        assert far.calls[-1] == "stop clicks gracefully"

    def test_a_cluster_that_does_not_exist(self, terminal: Terminal, far: World) -> None:
        done = terminal.ask("stop", "clicks", "--cluster", "near")
        assert done.exit_code == 2
        assert "--cluster near: there is no such; there is definitions.py/spark" in done.stderr


def test_an_unknown_stream_is_told_what_may_have_been_meant(terminal: Terminal) -> None:
    done = terminal.ask("logs", "clikcs")
    assert done.exit_code == 2
    assert (
        "stream = 'clikcs': no such stream; did you mean clicks? there is clicks, orders"
    ) in done.stderr


class TestSettingsOfTheCluster:
    """Such as come from the environment: what is wrong with them shows when they are read."""

    @pytest.fixture
    def local(self, terminal: Terminal) -> Terminal:
        (terminal.folder / "definitions.py").write_text(
            "import dagster as dg\n"
            "from dagster_sparkscale import LocalCluster, build_defs\n"
            "from tests.fakes import structured\n"
            "workers = dg.EnvVar.int('SPARKSCALE_TEST_WORKERS')\n"
            "defs = build_defs([structured()], LocalCluster(state_dir='state', workers=workers))\n"
        )
        return terminal

    @pytest.mark.parametrize("words", [("doctor",), ("status",), ("start", "clicks")])
    @pytest.mark.parametrize(
        ("value", "said"),
        [("0", "workers = 0: must be"), (None, '"SPARKSCALE_TEST_WORKERS" which is not set')],
    )
    def test_are_refused_in_the_words_of_who_refuses_them(
        self,
        local: Terminal,
        monkeypatch: pytest.MonkeyPatch,
        words: tuple[str, ...],
        value: str | None,
        said: str,
    ) -> None:
        monkeypatch.delenv("SPARKSCALE_TEST_WORKERS", raising=False)
        if value is not None:
            monkeypatch.setenv("SPARKSCALE_TEST_WORKERS", value)
        done = local.ask(*words)
        assert done.exit_code == 1
        assert said in done.output
        assert "Stack Trace" not in done.output
        assert local.runs() == []
