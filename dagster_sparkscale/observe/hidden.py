"""What an event carries for programs: in a comment of Markdown, which Dagster's pages don't show.

As JSON or as text it would stand there in full, as much of it as a page has room for. Pure.
"""

_BEGIN, _END = "<!--", "-->"
_GREATER = "\\u003e"


def hidden(said: str, text: str) -> str:
    """Markdown that shows `said` and carries `text`, which is JSON or has no ">" in it."""
    return f"{said}\n\n{_BEGIN}{text.replace('>', _GREATER)}{_END}"


def carried(markdown: object) -> str | None:
    """What `hidden` has hidden; None where there is nothing of it."""
    if not isinstance(markdown, str) or not markdown.endswith(_END):
        return None
    _, begun, text = markdown.removesuffix(_END).partition(_BEGIN)
    return text if begun else None
