"""HTML that is written by functions: text within it is escaped, always. Pure."""

import html
from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.token import Token


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Inner = str | Iterable["Inner"]
"""Text, HTML, or several of them one after the other."""
_VOID = frozenset({"meta", "link", "br", "input"})


def inner(content: Inner) -> Html:
    """Content as HTML: what is text in it is escaped."""
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        # What HTML can't have, as the log of a broken program may say it.
        return Html(html.escape(content.encode(errors="replace").decode().replace("\0", "?")))
    return Html("".join(map(inner, content)))


def el(tag: str, *content: Inner, **attributes: str | bool | None) -> Html:
    """An element.

    Args:
        attributes: by name, with `_` for `-`, and one at the end left out, as in `class_`; None or
            False: it has no such attribute; True: it has it, without a value.
    """
    parts = [tag]
    for name, value in attributes.items():
        name = name.removesuffix("_").replace("_", "-")
        if value is True:
            parts.append(name)
        elif value is not None and value is not False:
            parts.append(f'{name}="{inner(value)}"')
    opened = f"<{' '.join(parts)}>"
    return Html(opened if tag in _VOID else f"{opened}{inner(content)}</{tag}>")


def table(caption: str, head: Iterable[str], lines: Iterable[Iterable[Inner]]) -> Html:
    """A table that may be wider than the page, and is scrolled by itself then. The first cell of a
    line is its head."""
    columns = [el("th", each, scope="col") for each in head]
    rows = []
    for line in lines:
        first, *more = line
        rows.append(el("tr", el("th", first, scope="row"), *(el("td", each) for each in more)))
    made = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", *columns)),
        el("tbody", *rows),
    )
    return el("div", made, class_="wide", tabindex="0", role="region", aria_label=caption)


def from_markdown(text: str, dagster_url: str = "") -> Html:
    """Markdown of Dagster's pages as HTML. HTML and pictures in it are text; its links are those
    of the web, and those within Dagster where it is known where that is.

    Args:
        dagster_url: of Dagster's UI, without a slash at its end; empty: not known.
    """
    reader = MarkdownIt("js-default", {"html": False, "linkify": False}).disable("image")
    # An empty picture is where a line may end (`markdown.py`): here the style sheet sees to that.
    tokens = reader.parse(text.replace("![]()", "").encode(errors="replace").decode())
    for token in tokens:
        token.attrs.pop("style", None)  # how a column is aligned: not by an attribute (CSP)
        _relink(token.children or [], dagster_url)
    return Html(reader.renderer.render(tokens, reader.options, {}))


def _relink(children: Iterable[Token], dagster_url: str) -> None:
    dropped: list[bool] = []
    for child in children:
        if child.type == "link_open":
            target = str(child.attrGet("href") or "")
            within = target.startswith("/") and not target.startswith("//")
            keep = target.startswith(("http://", "https://")) or (within and bool(dagster_url))
            dropped.append(not keep)
            if keep:
                child.attrSet("href", dagster_url + target if within else target)
                child.attrSet("rel", "noreferrer")
            else:
                child.tag, child.attrs = "span", {}
        elif child.type == "link_close" and dropped.pop():
            child.tag = "span"
