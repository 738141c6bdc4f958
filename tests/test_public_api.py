"""What the package offers, what it costs to import, and which part may know which."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dagster_sparkscale
from dev.mutated import PURE

PACKAGE = Path(dagster_sparkscale.__file__).parent


@pytest.mark.parametrize("name", dagster_sparkscale.__all__)
def test_every_public_name_resolves(name):
    assert getattr(dagster_sparkscale, name) is not None
    assert name in dir(dagster_sparkscale)


@pytest.mark.parametrize("name", sorted(dagster_sparkscale._HOMES))
def test_a_public_name_is_what_its_module_calls_so(name):
    thing = getattr(dagster_sparkscale, name)
    home = import_module(f"dagster_sparkscale.{dagster_sparkscale._HOMES[name]}")
    assert thing is getattr(home, name)
    if not isinstance(thing, str):
        assert thing.__module__ == home.__name__, "its home is where it is defined"


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'dagster_sparkscale' has no attribute 'nonsense'"):
        _ = dagster_sparkscale.nonsense


def test_types_are_declared_for_every_name_that_is_resolved_lazily():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    declared = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        for imported in ast.walk(node)
        if isinstance(imported, ast.ImportFrom)
        for alias in imported.names
    }
    assert declared == set(dagster_sparkscale._HOMES)


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a new Python has loaded after `statement`."""
    code = f"import sys; {statement}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_bare_package_costs_nothing():
    loaded = loaded_by("import dagster_sparkscale")
    assert "dagster_sparkscale" in loaded
    assert not loaded & {"dagster", "pyspark", "pydantic", "requests", "filelock", "psutil"}


def test_a_source_needs_on_an_executor_what_it_says_and_no_more():
    loaded = loaded_by("import dagster_sparkscale.sources.kinesis.read")
    assert not loaded & {"dagster", "pydantic", "pyspark", "boto3", "pyarrow", "filelock", "psutil"}


def test_declaring_streams_does_not_need_dagster():
    loaded = loaded_by("from dagster_sparkscale import StructuredStream, RatioPolicy")
    assert "pydantic" in loaded
    assert not loaded & {"dagster", "pyspark"}


def test_what_dagster_loads_is_free_of_heavy_imports():
    modules = (
        *("definitions", "autoscale.rescale_job", "clusters.local", "clusters.kubernetes.cluster"),
        *("clusters.standalone.cluster", "clusters.standalone.rest_cluster"),
        *("clusters.yarn.cluster", "clusters.yarn.client_mode"),
    )
    loaded = loaded_by("; ".join(f"import dagster_sparkscale.{module}" for module in modules))
    assert "dagster" in loaded
    heavy = {
        "pyspark",
        "py4j",
        "kubernetes",
        "urllib3",
        "cryptography",
        "dagster_k8s",
        "boto3",
        "pandas",
        "numpy",
        "rich",
    }
    assert not loaded & heavy


def modules_of(part: str) -> list[Path]:
    folder = PACKAGE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{part}.py"]


def imports_of(path: Path) -> list[str]:
    """Every module that `path` imports, at the top or inside a function."""
    found = []
    inside = [*path.relative_to(PACKAGE.parent).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = inside[: -node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from package import module` names a module as well.
            found += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return found


def test_the_driver_needs_nothing_but_python_and_spark():
    modules = modules_of("driver")
    assert modules, "the driver is gone"
    for path in modules:
        for name in imports_of(path):
            top, *rest = name.split(".")
            known = top in sys.stdlib_module_names or top in ("pyspark", "py4j")
            assert known or (top == "dagster_sparkscale" and rest[:1] == ["driver"]), (
                f"{path.name} imports {name}"
            )


def test_the_driver_starts_where_there_is_nothing_else():
    """Imported by itself it loads no other part of the package."""
    code = (
        "import sys, dagster_sparkscale.driver; "
        "print(*[m for m in sys.modules if m.startswith('dagster_sparkscale.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[1] for name in done.stdout.split()} == {"driver"}


# They read or write a moment, and look at no clock.
MOMENTS = {
    "autoscale/steer.py": "datetime",
    "declare/calendar.py": "datetime",
    "in_force/limits.py": "datetime",
    "clusters/kubernetes/pod_fate.py": "datetime",
    "driver/batches/progress.py": "datetime",
    "driver/lineage/events.py": "datetime",
    "durations.py": "datetime",
    "markdown.py": "time",
    "sources/kinesis/options.py": "datetime",
}


@pytest.mark.parametrize("module", PURE)
def test_who_says_that_it_is_pure_is(module):
    """No Dagster, no Spark, no clock, no I/O: what it does depends on its arguments alone."""
    tops = {name.split(".")[0] for name in imports_of(PACKAGE / module)}
    tainted = {"dagster", "pyspark", "time", "datetime", "os", "random", "threading", "requests"}
    assert not tops & (tainted - {MOMENTS.get(module)})
