"""The Dockerfiles of deploy/docker: what can be told of them where no image can be built."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin
from dagster._core.workspace.load import location_origins_from_yaml_paths
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy" / "docker"
DRIVER, DAGSTER = DOCKER / "Dockerfile.driver", DOCKER / "Dockerfile.dagster"
ENTRYPOINT = DOCKER / "entrypoint.sh"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def arguments(file: Path) -> dict[str, str]:
    """The build arguments that have a default, which each is given once."""
    found = re.findall(r"^ARG (\w+)=(\S+)$", file.read_text(), re.M)
    assert found and len(dict(found)) == len(found)
    return dict(found)


def instructions(file: Path) -> list[str]:
    """Each with its lines as one."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


def bounds(package: str, extra: str | None = None) -> SpecifierSet:
    listed = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    [found] = [each for each in map(Requirement, listed) if each.name == package]
    return found.specifier


@pytest.mark.parametrize("file", [DRIVER, DAGSTER], ids=lambda file: file.name)
def test_hadolint_finds_no_fault(file: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_releases_are_those_that_the_project_is_for() -> None:
    driver, dagster = arguments(DRIVER), arguments(DAGSTER)
    assert driver["SPARK"] in bounds("pyspark", "spark")
    assert dagster["DAGSTER"] in bounds("dagster")
    for each in (driver, dagster):
        assert each["PYTHON"] in SpecifierSet(PROJECT["requires-python"])
    extras = {*driver["EXTRAS"].split(","), "k8s", "metrics"}
    assert extras <= {*PROJECT["optional-dependencies"]}
    assert "[k8s,metrics]" in DAGSTER.read_text()


def test_they_are_the_newest_that_were_tested() -> None:
    """The bound of each is the release after it."""
    for bound, image in (
        (bounds("pyspark", "spark"), arguments(DRIVER)["SPARK"]),
        (bounds("dagster"), arguments(DAGSTER)["DAGSTER"]),
    ):
        major, minor = (int(part) for part in image.split(".")[:2])
        assert f"{major}.{minor + 1}" not in bound


def test_the_client_for_s3_is_of_the_hadoop_that_spark_has() -> None:
    given = arguments(DRIVER)
    if version("pyspark") != given["SPARK"]:
        pytest.skip(f"Spark is {version('pyspark')} here, and {given['SPARK']} in the image")
    import pyspark

    jars = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    [hadoop] = [jar.stem.removeprefix("hadoop-client-api-") for jar in jars]
    assert hadoop == given["HADOOP"]
    docs = (ROOT / "docs" / "kubernetes.md").read_text()
    for artifact in (
        f"hadoop-aws:{given['HADOOP']}",
        f"awssdk:bundle:{given['AWS_SDK']}",
        f"analyticsaccelerator-s3:{given['ANALYTICS']}",
    ):
        assert artifact in docs


def test_the_chart_is_of_the_dagster_in_the_image() -> None:
    values = (ROOT / "deploy" / "kubernetes" / "values.yaml").read_text()
    docs = (ROOT / "docs" / "deploying.md").read_text()
    for text in (values, docs):
        assert set(re.findall(r"--version (\S+)", text)) == {arguments(DAGSTER)["DAGSTER"]}


def test_what_is_copied_is_there_and_is_let_through() -> None:
    let_through = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.M)
    copied = []
    for file in (DRIVER, DAGSTER):
        for line in instructions(file):
            if line.startswith("COPY") and "--from" not in line:
                words = [word for word in line.split()[1:-1] if not word.startswith("--")]
                app = arguments(DAGSTER)["APP"]
                copied += [word.replace("${APP}", app) for word in words]
    assert sorted(copied) == ["deploy/docker/entrypoint.sh", "deploy/kubernetes/app/"]
    assert all((ROOT / each).exists() for each in copied)
    # dist, which is mounted, is made before (make dist).
    assert all("source=dist" in file.read_text() for file in (DRIVER, DAGSTER))
    assert {each.split("/")[0] for each in [*copied, "dist"]} == set(let_through)


@pytest.mark.parametrize(
    ("file", "user"), [(DRIVER, 185), (DAGSTER, 1000)], ids=["driver", "dagster"]
)
def test_nobody_is_root_and_the_user_is_a_number(file: Path, user: int) -> None:
    """Kubernetes lets a user into a pod that must not be root only if it is a number."""
    last = [line for line in instructions(file) if line.startswith("USER ")][-1]
    assert last.split()[1].split(":")[0] == str(user)


def test_the_code_location_reads_the_variables_that_the_chart_gives_it() -> None:
    values = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "values.yaml").read_text())
    [location] = values["dagster-user-deployments"]["deployments"]
    assert location["dagsterApiGrpcArgs"] == ["-f", "/app/definitions.py"]
    app = ROOT / arguments(DAGSTER)["APP"]
    asked = re.findall(r'environ\.get\("(\w+)", "(\S+)"\)', (app / "definitions.py").read_text())
    assert [(each["name"], each["value"]) for each in location["env"]] == asked
    assert (app / "ticks.py").is_file()


def test_sparkscale_in_the_pod_calls_the_code_location_as_the_chart_does() -> None:
    """By another name its streams and its sensor would not be found to be Dagster's."""
    values = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "values.yaml").read_text())
    [chart] = values["dagster-user-deployments"]["deployments"]
    app = ROOT / arguments(DAGSTER)["APP"]
    [origin] = location_origins_from_yaml_paths([str(app / "workspace.yaml")])
    assert origin.location_name == chart["name"]
    assert isinstance(origin, ManagedGrpcPythonEnvCodeLocationOrigin)
    assert origin.loadable_target_origin.python_file == str(app / "definitions.py")
    # In the current folder, which is where the command looks.
    assert "WORKDIR /app" in instructions(DAGSTER)
