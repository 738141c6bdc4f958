"""What is wrong with a command that the docs show: asked of those who would take it."""

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.__main__ import BENCHMARKS
from dagster_sparkscale.cli.main import main
from tests.docs.pages import ROOT, Block, blocks

_MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", _MAKEFILE, re.M))
VARIABLES = set(re.findall(r"^([A-Z]+) [?:]=", _MAKEFILE, re.M))
EXTRAS = set(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
)
CLONE = "/path/to/clone"
# Programs of others, of which only the files are looked at that they are handed.
OTHERS = (
    *("cd", "cp", "dg", "docker", "echo", "export", "helm", "jq", "kill", "kubectl", "mkdir"),
    "source",
)
# What the reader of the tutorial has made by then.
FILES = {block.title for block in blocks("docs/tutorial.md") if block.title}


def typed(block: Block) -> list[str]:
    """The lines of the block that somebody types; after a `$`, where there is one, else all."""
    lines = [line.strip() for line in block.text.splitlines() if line.strip()]
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return prompted or lines


def simple(line: str) -> list[list[str]]:
    """The words of each command of a line: its pipes and `&&` taken apart, its comment left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("|&;"):
            found.append([])
        else:
            found[-1].append(word)
    return found


def fault(words: Sequence[str]) -> str | None:
    """Why this command can't be what it says; None if nothing is known against it."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    program, *rest = words
    if program == "make":
        return _make(rest)
    if program == "sparkscale":
        return _sparkscale(rest)
    if program == "python":
        return _python(rest)
    if program == "pip":
        return _pip(rest)
    if program not in OTHERS:
        return f"{program}: nobody has said how this is checked (tests/docs/commands.py)"
    for word in rest:
        ours = word.startswith((f"{CLONE}/", "deploy/"))
        if ours and not (ROOT / word.removeprefix(f"{CLONE}/")).exists():
            return f"there is no {word}"
    return None


def _make(words: Sequence[str]) -> str | None:
    for word in words:
        name, given, value = word.partition("=")
        if given and name not in VARIABLES:
            return f"the Makefile has no {name}"
        if not given and name not in TARGETS:
            return f"the Makefile has no target {name}"
        if "bench" in words and name == "ONLY" and value not in (*BENCHMARKS, "name"):
            return f"there is no benchmark {value}"
    return None


def _sparkscale(words: Sequence[str]) -> str | None:
    """By parsing them as the command does, with a number where the docs have a letter."""
    name, *rest = words or ["status"]
    command = main.commands.get(name)
    if any(name in parameter.opts for parameter in main.get_params(click.Context(main))):
        return None
    if command is None:
        return f"sparkscale has no command {name}"
    if not rest:
        return None  # a sentence names the command alone, without the stream that it needs
    try:
        command.make_context(name, ["7" if word == "N" else word for word in rest])
    except click.ClickException as error:
        return error.format_message()
    return None


def options(command: str) -> set[str]:
    """The options of a command of sparkscale."""
    return {name for parameter in main.commands[command].params for name in parameter.opts}


def _python(words: Sequence[str]) -> str | None:
    if words[0] in FILES:
        return None
    if words[0] != "-m":
        return f"python {words[0]}: only modules of ours are known"
    _, name, *rest = words
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        return f"there is no module {name}"
    main_module = Path(spec.origin).with_name("__main__.py")
    source = (main_module if spec.submodule_search_locations else Path(spec.origin)).read_text()
    missing = [word for word in rest if word.startswith("--") and f'"{word}"' not in source]
    return f"{name} has no {missing[0]}" if missing else None


def _pip(words: Sequence[str]) -> str | None:
    for word in words:
        found = re.fullmatch(rf"{CLONE}(?:\[(.*)\])?", word)
        if found and found[1] and not set(found[1].split(",")) <= EXTRAS:
            return f"{word}: there are the extras {sorted(EXTRAS)}"
    return None
