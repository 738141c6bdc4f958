"""What every page has: its frame, its files, and the pages that show nothing of a stream. Pure.

There is no script and no style within the HTML but in a page that is one file: it names its own by
their hashes.
"""

import base64
import hashlib
from collections.abc import Mapping
from urllib.parse import urlencode

from dagster_sparkscale.serve.page.elements import Html, Inner, el

SCRIPTS = ("uplot.js", "page.js")
STYLES = ("uplot.css", "page.css")


def query(**values: str) -> str:
    """The end of an address, from the question mark on."""
    return f"?{urlencode(values, errors='replace')}"


def whole_page(title: str, body: Inner, head: Inner, **data: str) -> str:
    """A page, with the head and the attributes of the body that are its own."""
    meta = (
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
    )
    made = el(
        "html",
        el("head", meta, head),
        el("body", el("a", "To the content", href="#main", class_="skip"), body, **data),
        lang="en",
    )
    return f"<!doctype html>\n{made}\n"


def linked(version: str) -> Inner:
    """What a page needs on which something is drawn."""
    return (
        el("link", rel="icon", href=f"static/icon.svg?v={version}"),
        [el("link", rel="stylesheet", href=f"static/{name}?v={version}") for name in STYLES],
        [el("script", src=f"static/{name}?v={version}", defer=True) for name in SCRIPTS],
    )


def linked_styles(version: str) -> Inner:
    """What a page needs on which nothing is drawn."""
    return (
        el("link", rel="icon", href=f"static/icon.svg?v={version}"),
        el("link", rel="stylesheet", href=f"static/page.css?v={version}"),
    )


def footer() -> Html:
    """The end of a page that is live."""
    said = el("p", "Live: connecting", id="connection")
    # Said once it is known, and only where it is not as it should be.
    return el("footer", said, el("noscript", "Without JavaScript: no charts, and not live."))


def one_file(title: str, header: Inner, main: Inner, files: Mapping[str, str]) -> str:
    """A page that needs no server and may load nothing.

    Args:
        files: the style sheets and scripts, by name.
    """
    styles = "\n".join(files[name] for name in STYLES)
    scripts = "\n".join(files[name] for name in SCRIPTS)
    policy = (
        f"default-src 'none'; style-src '{_hash(styles)}'; script-src '{_hash(scripts)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = (
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("style", Html(styles)),
    )
    # Behind what it draws: a script in the file itself can't be deferred.
    return whole_page(title, (header, main, el("script", Html(scripts))), head)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def login(wrong: bool, version: str) -> str:
    """The page that asks for the token."""
    said = "This is not the token." if wrong else "Reading this needs the token of --token-file."
    form = el(
        "form",
        el("label", "Token", for_="token"),
        el(
            "input",
            *(),
            type="password",
            name="token",
            id="token",
            required=True,
            autocomplete="current-password",
        ),
        el("button", "Show the streams"),
        method="post",
        action="login",
    )
    styles = linked_styles(version)
    body = el("main", el("h1", "Streams"), el("p", said, role="status"), form, id="main")
    return whole_page("Streams", body, styles)


def not_found(why: str, version: str) -> str:
    """The page for an address at which there is none."""
    styles = linked_styles(version)
    way = el("p", el("a", "All streams", href="."))
    return whole_page(
        "Streams", el("main", el("h1", "Not found"), el("p", why), way, id="main"), styles
    )
