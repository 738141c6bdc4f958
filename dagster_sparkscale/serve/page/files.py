"""The style sheets and scripts of the page, as they are installed with the library."""

import hashlib
from functools import cache
from importlib.resources import files

KINDS = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def static() -> dict[str, str]:
    """The content of each file, by name."""
    folder = files("dagster_sparkscale.serve.page") / "static"
    return {
        each.name: each.read_text(encoding="utf-8")
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in KINDS
    }


@cache
def version() -> str:
    """A short text that is another one when a file is: browsers keep files for long."""
    whole = "\0".join(f"{name}\0{content}" for name, content in sorted(static().items()))
    return hashlib.sha256(whole.encode()).hexdigest()[:12]
