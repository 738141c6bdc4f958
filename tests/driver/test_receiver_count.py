"""What a program gets of the number of its receivers, wherever it runs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.driver.receivers.count import (
    BadReceiverSetting,
    receiver_checkpoint,
    receiver_count,
)
from tests.driver.test_stream_options import Context, Session

NUMBER, GENERATION = "spark.sparkscale.receivers", "spark.sparkscale.receivers.generation"


def test_without_a_stream_it_is_what_the_program_says() -> None:
    assert receiver_count(2, Context({})) == 2
    assert receiver_checkpoint("/data/clicks", Context({})) == "/data/clicks"


def test_what_is_set_counts() -> None:
    spark = Context({NUMBER: "5", GENERATION: "3"})
    assert receiver_count(2, spark) == receiver_count(2, Session(object(), spark)) == 5
    assert receiver_checkpoint("/data/clicks", spark) == "/data/clicks/receivers-3"
    assert receiver_checkpoint("s3a://b/clicks/", spark) == "s3a://b/clicks/receivers-3"


def test_the_first_generation_has_the_folder_itself() -> None:
    assert receiver_checkpoint("/data/clicks", Context({GENERATION: "0"})) == "/data/clicks"
    assert receiver_count(2, Context({NUMBER: "1"})) == 1


@pytest.mark.parametrize("text", ["0", "-1", "2.0", "two", "", " 2", "\u0662"])
def test_what_is_no_number_of_receivers_is_told(text: str) -> None:
    with pytest.raises(BadReceiverSetting) as told:
        receiver_count(2, Context({NUMBER: text}))
    assert str(told.value) == f"{NUMBER} = {text!r}: must be a whole number of at least 1"


@pytest.mark.parametrize("text", ["-1", "1.5", "x", ""])
def test_what_is_no_generation_is_told(text: str) -> None:
    with pytest.raises(BadReceiverSetting) as told:
        receiver_checkpoint("/data/clicks", Context({GENERATION: text}))
    assert str(told.value) == f"{GENERATION} = {text!r}: must be a whole number of at least 0"


@pytest.mark.parametrize("default", [0, -1, True, 2.0, "2", None])
def test_a_default_that_is_no_number_is_told_even_where_one_is_set(default: Any) -> None:
    with pytest.raises(BadReceiverSetting, match="must be a whole number of at least 1"):
        receiver_count(default, Context({NUMBER: "2"}))


def test_a_checkpoint_needs_a_folder() -> None:
    with pytest.raises(ValueError, match=r"receiver_checkpoint\(''\): must be the path"):
        receiver_checkpoint("", Context({}))


def test_by_the_public_names_there_is_no_need_of_spark(tmp_path: Path) -> None:
    code = (
        "from dagster_sparkscale import receiver_checkpoint, receiver_count; "
        "print(receiver_count(4), receiver_checkpoint('/c'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4", "/c"]
