"""The files of the tutorial do what it says of them."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from dagster_sparkscale import StructuredStream
from tests.docs.pages import blocks, text
from tests.driver.running import end_report, local_driver
from tests.waiting import HANGS, wait_for

PAGE = "docs/tutorial.md"
FILES = {block.title: block.text for block in blocks(PAGE) if block.title}
RAISED = 'raise ValueError("a line that can\'t be counted")'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the reader has after the third step."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "lines").mkdir()
    return tmp_path


def declared(folder: Path) -> tuple[dg.Definitions, StructuredStream]:
    """What the reader's definitions.py defines."""
    names = {"__file__": str(folder / "definitions.py"), "__name__": "definitions"}
    exec(compile(FILES["definitions.py"], "definitions.py", "exec"), names)
    defs, stream = names["defs"], names["words"]
    assert isinstance(defs, dg.Definitions) and isinstance(stream, StructuredStream)
    return defs, stream


def fed(folder: Path, rate: int, seconds: int) -> None:
    command = [sys.executable, "feed.py", str(rate), str(seconds)]
    subprocess.run(command, cwd=folder, check=True, timeout=HANGS)


def test_its_declaration_is_the_one_that_the_text_speaks_of(folder: Path) -> None:
    defs, stream = declared(folder)
    dg.Definitions.validate_loadable(defs)
    assert Path(stream.program).is_file()
    assert (stream.bounds.minimum, stream.bounds.maximum) == (1, 4)
    assert stream.autoscale is not None and stream.autoscale.interval == 30
    assert "every 30 seconds one executor goes" in text(PAGE).replace("\n", " ")


def test_its_feed_writes_a_file_a_second_that_spark_sees_when_it_is_whole(folder: Path) -> None:
    fed(folder, rate=20, seconds=2)
    [first, second] = sorted((folder / "lines").iterdir())
    assert first.suffix == second.suffix == ".txt" and not first.name.startswith(".")
    assert len(first.read_text().splitlines()) == 20


def test_one_line_ends_of_the_poison_and_can_be_mended_as_the_text_says() -> None:
    assert FILES["words.py"].count(RAISED) == 1
    ast.parse(FILES["words.py"].replace(RAISED, "return 0"))


@pytest.mark.spark
@pytest.mark.clusters
def test_its_program_fails_of_the_poison_and_loses_nothing_once_it_is_mended(folder: Path) -> None:
    _, stream = declared(folder)
    settings = {"spark.sql.streaming.checkpointLocation": stream.checkpoint_location}
    fed(folder, rate=2, seconds=1)
    (folder / "lines" / "poison.txt").write_text("poison\n")
    arguments = stream.program_arguments()

    with local_driver(folder / "1", Path(stream.program), *arguments, settings=settings) as driver:
        assert driver.exit_code() != 0
        assert "a line that can't be counted" in str(end_report(driver).raised)

    mended = FILES["words.py"].replace(RAISED, "return 0")
    Path(stream.program).write_text(mended)
    with local_driver(folder / "2", Path(stream.program), *arguments, settings=settings) as driver:
        lines = wait_for("what was counted", lambda: counted(folder), 120, about=driver.log)
    assert sorted(lines) == [("poison", 0), *[("the quick brown fox", 4)] * 2]


def counted(folder: Path) -> list[tuple[str, int]]:
    """The lines that the program has written, each with its number of words; none before the
    first batch is done. What a task of a failed batch left is in no list of the sink."""
    listed = [
        json.loads(entry)["path"].removeprefix("file://")
        for batch in (folder / "counted" / "_spark_metadata").glob("[0-9]*")
        for entry in batch.read_text().splitlines()[1:]
    ]
    rows = [json.loads(line) for path in listed for line in Path(path).read_text().splitlines()]
    return [(row["value"], row["words"]) for row in rows]
