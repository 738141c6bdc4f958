"""Which modules and which tests mutation testing is about."""

import tomllib
from pathlib import Path

import pytest

from dev import mutants
from dev.mutants import MODULES, PACKAGE, chosen, configuration
from dev.mutated import ACTING, GROUPS, PURE


@pytest.mark.parametrize("name", ["ratio", "autoscale/ratio.py", "autoscale.ratio", "ratio.py"])
def test_a_module_may_be_named_as_it_comes_to_mind(name: str) -> None:
    assert chosen([name]) == ["autoscale/ratio.py"]


def test_no_name_means_all_modules() -> None:
    assert set(chosen([])) == set(MODULES)


@pytest.mark.parametrize("name", ["atio", "collect", "autoscale"])
def test_a_name_that_fits_none_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=f"ONLY={name}: .* autoscale/ratio.py"):
        chosen([name])


def test_a_module_is_judged_in_one_group() -> None:
    assert not PURE.keys() & ACTING.keys()
    assert sum(len(group.modules) for group in GROUPS) == len(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_each_module_is_there_and_so_are_tests_of_it(module: str) -> None:
    assert (Path(PACKAGE) / module).is_file()
    for pattern in MODULES[module]:
        assert list(Path("tests").glob(pattern)), f"no test is {pattern}"


def test_only_the_chosen_modules_are_changed_and_only_their_tests_are_run() -> None:
    settings = tomllib.loads(configuration(["durations.py"]))["tool"]["mutmut"]
    assert settings["only_mutate"] == ["dagster_sparkscale/durations.py"]
    assert settings["pytest_add_cli_args_test_selection"] == ["tests/test_durations.py"]
    arguments = settings["pytest_add_cli_args"]
    assert arguments[arguments.index("-m") + 1].startswith("not (clusters or spark or ")
    assert mutants.test_files(["durations.py"]) == ["tests/test_durations.py"]
