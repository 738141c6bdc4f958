import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pyspark

from dagster_sparkscale.clusters.kubernetes.manifests import LARGEST
from dagster_sparkscale.clusters.kubernetes.programs import LARGEST_PROGRAM
from dagster_sparkscale.clusters.launch.driver_zip import NAME, parcel


def test_the_driver_runs_from_the_parcel_alone(tmp_path: Path) -> None:
    where = tmp_path / NAME
    where.write_bytes(parcel())
    # Isolated from this package, which is installed here.
    answer = subprocess.run(
        [sys.executable, "-S", "-m", "dagster_sparkscale.driver", "--help"],
        env={"PYTHONPATH": str(where)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--token-file" in answer.stdout


def test_every_module_of_it_finds_what_it_imports_there_or_in_spark(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(parcel())
    files = zipfile.ZipFile(BytesIO(parcel())).namelist()
    modules = [each.removesuffix(".py").replace("/", ".") for each in files]
    code = f"import importlib\nfor each in {modules}:\n"
    code += "    'main' in each or importlib.import_module(each.removesuffix('.__init__'))"
    # Behind it the packages installed here, with pyspark: this one is found in the parcel alone.
    behind = Path(pyspark.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": f"{tmp_path / NAME}:{behind}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_it_has_the_driver_and_the_sources_and_nothing_of_dagsters() -> None:
    names = zipfile.ZipFile(BytesIO(parcel())).namelist()
    assert {"pyspark_kinesis_direct.py", "dagster_sparkscale/__init__.py"} <= set(names)
    rooms = {name.split("/")[1] for name in names if name.count("/") > 1}
    assert rooms == {"driver", "sources"}


def test_the_same_code_gives_the_same_bytes() -> None:
    before = parcel()
    parcel.cache_clear()
    assert parcel() == before


def test_it_fits_where_managers_put_it() -> None:
    # In a ConfigMap beside the largest program, and small files such as the executors' template.
    assert len(parcel()) < LARGEST - LARGEST_PROGRAM - 30_000


def test_a_program_finds_its_stream_options_where_there_is_nothing_but_python(
    tmp_path: Path,
) -> None:
    (tmp_path / NAME).write_bytes(parcel())
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / NAME)!r}); "
        "from dagster_sparkscale import stream_options; "
        "import dagster_sparkscale as d; "
        "print('.zip' in d.__file__, stream_options('clicks'), 'pydantic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True {} False"
