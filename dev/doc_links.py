"""An extension of Python-Markdown for the documentation site, which has the pages of `docs/` alone.

A page may link to a file of the repository, such as `../definitions.py`: GitHub shows it, and on
the site the link becomes its text and the file's path. The changelog links to `docs/cli.md`; the
site shows it from `docs/reference/`. Links between pages stay as they are.
"""

from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

ROOT = Path(__file__).resolve().parent.parent
# After links have been made of the text (20), before MkDocs checks them (0).
PRIORITY = 10


def repository_file(target: str) -> str | None:
    """Say which file or folder of the repository a link out of `docs/` leads to; None: it leads to
    a page, to an address or nowhere."""
    path = target.removeprefix("../")
    return path if path != target and path and (ROOT / path).exists() else None


class _AsText(Treeprocessor):
    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            target = link.get("href", "")
            if target.startswith("docs/"):
                link.set("href", target.replace("docs/", "../", 1))
            path = repository_file(target)
            if path is None:
                continue
            link.tag = "span"
            link.attrib.clear()
            if "".join(link.itertext()) != path:
                last = SubElement(link, "code")
                last.text = path
                _append_text(link, last, " (")
                last.tail = ")"


def _append_text(parent: Element, before: Element, text: str) -> None:
    """Put text at the end of what `parent` has before its last child."""
    children = list(parent)
    if children[0] is before:
        parent.text = (parent.text or "") + text
    else:
        children[-2].tail = (children[-2].tail or "") + text


class RepositoryLinks(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(_AsText(md), "repository_links", PRIORITY)


def makeExtension(**settings: object) -> Extension:
    """Python-Markdown asks the module for its extension by this name."""
    return RepositoryLinks(**settings)
