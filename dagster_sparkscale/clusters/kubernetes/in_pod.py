"""Begins a driver in its pod: finds PySpark and the program, and hands over to the driver package.

    python3 in_pod.py [the driver's options] program [arguments...]

Runs by itself, in an image that need have nothing but Spark: standard library only.
"""

import glob
import importlib.util
import os
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "in_pod.py"
PARCEL = "dagster_sparkscale.zip"
FETCH_SECONDS = 60.0


def lend(path: str) -> None:
    """Let this process, and those it starts, import what lies there."""
    sys.path.insert(1, path)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{path}{os.pathsep}{before}" if before else path


def fetched(url: str, folder: str) -> str:
    """The program at `url`, as a file."""
    path = os.path.join(folder, os.path.basename(url.partition("?")[0]))
    with urllib.request.urlopen(url, timeout=FETCH_SECONDS) as answer, open(path, "wb") as file:
        file.write(answer.read())
    return path


def own(words: list[str]) -> list[str]:
    """The driver's arguments. In a pod that Spark has made (`applications.py`) its words for the
    image's entrypoint come before them, down to the name of this file."""
    return words[words.index(f"local://{HERE}/{NAME}") + 1 :] if words[:1] == ["driver"] else words


def main(words: list[str], folder: str) -> int:
    """Begin the driver; returns its exit code.

    Args:
        words: the command line.
        folder: to put a program into that is to be fetched.
    """
    arguments = own(words)
    lend(os.path.join(HERE, PARCEL))
    if importlib.util.find_spec("pyspark") is None:
        python = os.path.join(os.environ.get("SPARK_HOME", "/opt/spark"), "python")
        for path in (python, *glob.glob(os.path.join(python, "lib", "py4j-*-src.zip"))):
            lend(path)
    at = 0
    while at < len(arguments) and arguments[at].startswith("--"):
        at += 2  # each option of the driver has a value
    program = arguments[at]
    if program.startswith(("http://", "https://")):
        try:
            arguments[at] = fetched(program, folder)
        except (OSError, ValueError) as error:
            print(f"the program can't be fetched from {program}: {error}", file=sys.stderr)
            return 1
    # Not past that module: it says so where this Python is too old for what it imports.
    from dagster_sparkscale.driver.__main__ import main as drive

    return drive(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ.get("SPARKSCALE_FOLDER", "/tmp")))
