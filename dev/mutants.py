"""`python -m dev.mutants [MODULE ...]`: small changes of modules that no test notices.

mutmut makes the changes and runs the tests, one process per change; `dev/mutated.py` says which
modules and which tests. This keeps all that in a folder of its own, and prints what survived. Not
part of CI: a survivor is a question to a person, and now and then the answer is that nothing is
wrong.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from dev import runs
from dev.mutated import GROUPS, Group, Modules
from dev.survivors import Verdict, judge, missed, report

PACKAGE = "dagster_sparkscale"
FOLDER = Path(".mutants")
LOG = FOLDER / "mutmut.log"
_ELSEWHERE = (
    "tests/clusters/test_submission.py::"
    "test_what_is_sent_unpacks_itself_where_there_is_nothing_but_python"
)
# Marks of tests that start what takes seconds to come up; a change is tried in less than one.
SLOW = ("clusters", "spark", "yarn", "hdfs", "kafka", "kubernetes", "browser")
SHIPPED = "pyspark_kinesis_direct.py"

MODULES: Modules = {name: tests for group in GROUPS for name, tests in group.modules.items()}


def chosen(names: list[str]) -> list[str]:
    """The modules that `names` mean: `ratio`, `autoscale/ratio.py` or `autoscale.ratio`.

    Raises:
        ValueError: one of them means none, or several.
    """
    if not names:
        return sorted(MODULES)
    found = []
    for name in names:
        wanted = "/" + name.removesuffix(".py").replace(".", "/") + ".py"
        fitting = [module for module in MODULES if f"/{PACKAGE}/{module}".endswith(wanted)]
        if len(fitting) != 1:
            which = " or ".join(fitting) or ", ".join(sorted(MODULES))
            raise ValueError(f"ONLY={name}: must be one module; there are {which}")
        found += fitting
    return found


def test_files(modules: list[str]) -> list[str]:
    """The files with the tests of `modules`."""
    patterns = {pattern for module in modules for pattern in MODULES[module]}
    return sorted({str(path) for pattern in patterns for path in Path("tests").glob(pattern)})


def configuration(modules: list[str]) -> str:
    """What mutmut is to be told, as a part of a pyproject.toml."""
    options = {
        "source_paths": [PACKAGE],
        "only_mutate": [f"{PACKAGE}/{module}" for module in modules],
        # The tests of the Kinesis source share fixtures that know the emulators, one runs what the
        # docs show, and what is shipped to drivers has a module of its own.
        "also_copy": ["dev", "docs", SHIPPED],
        # For the type checker, and for whoever reads logs.
        "do_not_mutate_patterns": [r"^\s*assert ", r"^\s*log\."],
        "pytest_add_cli_args_test_selection": test_files(modules),
        # In the one process that mutmut forks, whatever the suite uses otherwise.
        "pytest_add_cli_args": [
            *("-o", "addopts="),
            *("-p", "no:xdist"),
            *("-p", "no:cacheprovider"),
            *("-p", "no:tests.leftovers"),  # one run, of thousands of calls of pytest
            "--hypothesis-profile=mutants",
            *("-m", f"not ({' or '.join(SLOW)})"),
            # It runs where there is no mutmut, which changed code asks which change it is.
            f"--deselect={_ELSEWHERE}",
        ],
        # A busy machine must not pass for a change that never ends.
        "use_git_change_detection": False,
        "timeout_constant": 2.0,
        "timeout_multiplier": 10.0,
    }
    # JSON of lists, texts and numbers is TOML.
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    return "\n".join(["", "[tool.mutmut]", *lines, ""])


def prepare(modules: list[str]) -> None:
    """A copy of what is needed, so that the changes are made to nothing else."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in (PACKAGE, "tests", "dev", "docs"):
        shutil.copytree(name, FOLDER / name, ignore=unwanted)
    shutil.copy(SHIPPED, FOLDER)
    settings = Path("pyproject.toml").read_text(encoding="utf-8") + configuration(modules)
    (FOLDER / "pyproject.toml").write_text(settings, encoding="utf-8")


def run() -> int:
    """Have mutmut make and try all changes; its exit code says only whether it could."""
    program = Path(__file__).with_name("mutmut_run.py").resolve()
    command = [sys.executable, str(program), "run", "--max-children", str(os.cpu_count() or 2)]
    # The code to be tested is that in the folder, not what the environment names.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if sys.stdout.isatty():
        return subprocess.run(command, cwd=FOLDER, env=environment).returncode
    with LOG.open("wb") as log:
        return subprocess.run(
            command, cwd=FOLDER, env=environment, stdout=log, stderr=subprocess.STDOUT
        ).returncode


def results(modules: list[str]) -> list[tuple[Group, list[Verdict]]]:
    """By the groups that the modules are of."""
    found = ((group, [name for name in modules if name in group.modules]) for group in GROUPS)
    return [(group, _verdicts(names)) for group, names in found if names]


def _verdicts(modules: list[str]) -> list[Verdict]:
    verdicts = []
    for module in modules:
        made = FOLDER / "mutants" / PACKAGE / module
        exit_codes = json.loads(made.with_name(made.name + ".meta").read_text(encoding="utf-8"))
        verdicts.append(
            judge(
                f"{PACKAGE}/{module}",
                (FOLDER / PACKAGE / module).read_text(encoding="utf-8"),
                made.read_text(encoding="utf-8"),
                exit_codes["exit_code_by_key"],
            )
        )
    return verdicts


def main(names: list[str]) -> int:
    try:
        modules = chosen(names)
    except ValueError as error:
        print(error)
        return 2
    prepare(modules)
    print(f"{len(modules)} module(s), {len(test_files(modules))} files of tests ...", flush=True)
    if code := run():
        if LOG.exists():
            print(LOG.read_text(encoding="utf-8", errors="replace")[-5000:])
        print(f"mutmut could not run (exit code {code}); see above")
        return 2
    found = results(modules)
    for group, verdicts in found:
        print(report(group.name, group.goal, verdicts))
    return int(any(missed(group.goal, verdicts) for group, verdicts in found))


if __name__ == "__main__":
    runs.begin()
    sys.exit(main(sys.argv[1:]))
