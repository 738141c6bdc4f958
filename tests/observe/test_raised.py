import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.end_report import raised

TRACEBACK = """26/11/22 23:05:01 INFO SparkContext: Running Spark version 4.3.0
Traceback (most recent call last):
  File "jobs/broken.py", line 3, in <module>
    raise ValueError("no such topic")
26/11/22 23:05:02 WARN Shell: between the lines
ValueError: no such topic
26/11/22 23:05:03 INFO ShutdownHookManager: Shutdown hook called
"""


def test_it_is_the_line_behind_the_frames():
    assert raised(TRACEBACK) == "ValueError: no such topic"


def test_of_several_it_is_the_last():
    later = TRACEBACK.replace("ValueError", "KeyError")
    assert raised(f"{TRACEBACK}\nDuring handling of the above:\n\n{later}") == (
        "KeyError: no such topic"
    )


def test_what_spark_raises_goes_by_its_short_name():
    log = TRACEBACK.replace(
        "ValueError: no", "pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM] no"
    )
    assert raised(log) == "StreamingQueryException: [STREAM] no such topic"


def test_one_without_words():
    assert raised(TRACEBACK.replace("ValueError: no such topic", "MemoryError")) == "MemoryError"


@pytest.mark.parametrize("log", ["", "exit", "ValueError: told by a log without a traceback"])
def test_where_there_is_no_traceback_nothing_is_told(log):
    assert raised(log) is None


@given(st.text())
def test_whatever_is_raised_is_one_short_line_that_a_terminal_takes(text):
    told = raised(TRACEBACK.replace("no such topic", text))
    assert told is None or (len(told) <= 200 and (told.isprintable() or not told))


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("raise ValueError('x' * 500)", "ValueError: " + "x" * 185 + "..."),
        (
            "def f():\n try: 1 / 0\n except Exception as e: raise KeyError('k') from e\nf()",
            "KeyError: 'k'",
        ),
        ("class Mine(Exception): pass\nraise Mine", "Mine"),
        ("import sys; sys.exit(3)", None),
    ],
)
def test_of_what_python_really_writes(program, told):
    ended = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert ended.returncode
    assert raised(ended.stderr) == told
