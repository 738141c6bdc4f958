"""The pages of the documentation: their blocks of code, links, tables, and what is in backticks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CHANGELOG.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")),
)


@dataclass(frozen=True)
class Block:
    """A fenced or indented block of code."""

    page: str
    line: int
    """Of the page, the one before the block's first line of code."""
    language: str
    """Empty where the block is indented, or its fence names none."""
    text: str
    title: str = ""
    """The name of the file that the block is, as in a fence of python title="words.py"."""

    @property
    def first(self) -> str:
        return self.text.strip().partition("\n")[0]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line + 1}"


@dataclass(frozen=True)
class Table:
    page: str
    section: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Cells as they are written, with their backticks."""


@cache
def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def tokens(page: str) -> tuple[Token, ...]:
    return tuple(MarkdownIt("commonmark").enable("table").parse(text(page)))


def blocks(page: str) -> list[Block]:
    found = []
    for token in tokens(page):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            line = token.map[0] + (token.type == "fence")
            language, _, rest = token.info.strip().partition(" ")
            title = rest.removeprefix('title="').removesuffix('"')
            found.append(Block(page, line, language, token.content, title))
    return found


def inline(page: str) -> Iterator[Token]:
    """What the running text of the page is made of: text, links, code in backticks."""
    for token in tokens(page):
        yield from token.children or ()


def code(page: str) -> list[str]:
    """What the page has in backticks."""
    return [token.content for token in inline(page) if token.type == "code_inline"]


def links(page: str) -> list[str]:
    """The targets of its links and the sources of its pictures."""
    found = []
    for token in inline(page):
        target = {"link_open": "href", "image": "src"}.get(token.type)
        if target:
            found.append(str(token.attrs[target]))
    return found


def headings(page: str) -> list[str]:
    """The titles of its sections, without markup."""
    found = []
    for opened, inside in zip(tokens(page), tokens(page)[1:], strict=False):
        if opened.type == "heading_open":
            found.append("".join(token.content for token in inside.children or ()))
    return found


def anchors(page: str) -> set[str]:
    """What links may name after the `#`, as GitHub makes it of headings."""
    found: set[str] = set()
    for title in headings(page):
        plain = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        number, anchor = 0, plain
        while anchor in found:
            number += 1
            anchor = f"{plain}-{number}"
        found.add(anchor)
    return found


def tables(page: str) -> list[Table]:
    found, section = [], ""
    row: list[str] = []
    rows: list[tuple[str, ...]] = []
    for before, token in zip(tokens(page), tokens(page)[1:], strict=False):
        if before.type == "heading_open":
            section = token.content
        elif token.type == "table_open":
            rows = []
        elif token.type == "tr_open":
            row = []
        elif before.type in ("th_open", "td_open"):
            row.append(token.content)
        elif token.type == "tr_close":
            rows.append(tuple(row))
        elif token.type == "table_close":
            found.append(Table(page, section, rows[0], tuple(rows[1:])))
    return found
