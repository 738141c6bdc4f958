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
        text = path.read_text().replace("defs = dg.", "streams = lambda: dg.")
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


class TestWhatCannotBeLoaded:
    @pytest.mark.parametrize("words", [("status", "--json"), ("logs", "clicks"), ("doctor",)])
    def test_definitions_that_end_the_process_are_named_and_it_is_no_success(
        self, terminal: Terminal, words: tuple[str, ...]
    ) -> None:
        (terminal.folder / "definitions.py").write_text("import sys\nsys.exit(0)\n")
        done = terminal.ask(*words)
        assert done.exit_code == 1
        assert "'definitions.py' can't be loaded: its definitions end the process, by" in (
            " ".join(done.output.split())
        )

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("load_from: [\n", "workspace.yaml or pyproject.toml: can't be read: ParserError"),
            ("load_from: 5\n", "can't be read: "),
            ("- a\n", "can't be read: "),
        ],
    )
    @pytest.mark.parametrize("words", [("status",), ("doctor",)])
    def test_a_workspace_that_is_broken_is_a_sentence(
        self, terminal: Terminal, words: tuple[str, ...], text: str, said: str
    ) -> None:
        (terminal.folder / "workspace.yaml").write_text(text)
        done = terminal.type(*words)
        assert done.exit_code == 1
        assert said in done.output
        assert "Traceback" not in done.output and "Stack Trace" not in done.output

    @pytest.fixture
    def two(self, terminal: Terminal) -> Terminal:
        """A workspace of a code location that loads and of one that does not."""
        (terminal.folder / "broken.py").write_text("import nonsense_that_is_not_there\n")
        (terminal.folder / "workspace.yaml").write_text(
            "load_from:\n  - python_file:\n      relative_path: broken.py\n"
            "  - python_file:\n      relative_path: definitions.py\n"
        )
        return terminal

    @pytest.mark.parametrize(
        ("words", "shown"),
        [
            (("status", "--once"), "clicks  warming up"),
            (("logs", "clicks"), FOUND),
            (("stop", "clicks"), "stopped"),
        ],
    )
    def test_one_of_several_keeps_nobody_from_the_others(
        self, two: Terminal, words: tuple[str, ...], shown: str
    ) -> None:
        done = two.type(*words)
        assert shown in done.output
        assert "Error: code location 'broken.py' can't be loaded: " in done.stderr
        assert done.exit_code == 1

    def test_one_of_several_is_a_line_of_doctor_beside_those_of_the_others(
        self, two: Terminal
    ) -> None:
        done = two.type("doctor")
        assert done.exit_code == 1
        assert "WRONG  code location: code location 'broken.py' can't be loaded" in done.stdout
        assert "clicks: answers" in done.stdout

    def test_a_stream_that_may_be_of_one_is_not_known_here(self, two: Terminal) -> None:
        done = two.type("stop", "visits")
        assert done.exit_code == 2
        assert "'broken.py' can't be loaded" in done.stderr and "no such stream" in done.stderr


class TestWithoutDagstersStorage:
    """Streams can be looked at while it is down, and not changed."""

    @pytest.fixture(
        params=[
            "run_storage: [\n",
            "run_storage:\n  module: tests.cli.storage\n  class: Down\n  config: {}\n",
        ]
    )
    def down(self, terminal: Terminal, request: pytest.FixtureRequest) -> Terminal:
        (terminal.folder / "home" / "dagster.yaml").write_text(request.param)
        return terminal

    @pytest.mark.parametrize(
        ("words", "shown"),
        [
            (("status", "--once"), "clicks  warming up"),
            (("status", "--json"), '"stream": "clicks"'),
            (("logs", "clicks"), FOUND),
        ],
    )
    def test_they_show(self, down: Terminal, words: tuple[str, ...], shown: str) -> None:
        done = down.ask(*words)
        assert shown in done.output
        assert done.exit_code == 0

    def test_the_table_says_that_it_is_not_known_who_watches(self, down: Terminal) -> None:
        assert "Whether anybody watches them is not known: " in down.ask("status").output

    def test_doctor_says_so_and_goes_on(self, down: Terminal) -> None:
        done = down.ask("doctor")
        assert done.exit_code == 1
        assert "WRONG  dagster.yaml: " in done.stdout
        assert "clicks: answers" in done.stdout

    def test_what_changes_a_stream_is_refused(self, down: Terminal) -> None:
        done = down.ask("stop", "clicks")
        assert done.exit_code == 1
        assert "Error: " in done.stderr and "Traceback" not in done.output
        assert down.kept().driver.state.alive

    def test_a_variable_that_may_have_been_in_it_is_told_with_that(self, down: Terminal) -> None:
        (down.folder / "definitions.py").write_text("import os\nos.environ['NOT_THERE_AT_ALL']\n")
        done = down.ask("logs", "clicks")
        assert "KeyError: 'NOT_THERE_AT_ALL'" in done.stderr
        assert "(without variables of Dagster's instance: " in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("stop", "clicks", "--timeout", "nan"),
        ("stop", "clicks", "--timeout", "inf"),
        ("scale", "clicks", "3", "--wait", "nan"),
        ("scale", "clicks", "3", "--wait", "inf"),
        ("limits", "clicks", "--rate", "nan"),
        ("retune", "clicks", "--set", "s.maxRate=nan"),
        ("status", "--every", "nan"),
    ],
)
def test_what_is_no_number_is_not_understood(terminal: Terminal, words: tuple[str, ...]) -> None:
    done = terminal.ask(*words)
    assert done.exit_code == 2, done.output
    assert terminal.runs() == []


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
