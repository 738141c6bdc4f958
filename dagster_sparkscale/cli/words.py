"""What Dagster's pages call jobs and settings, in the words of a terminal. Pure.

What is refused, and what is the matter with a stream, says what to do where most people read it: on
a page of Dagster. In a terminal the same is done by a command.
"""

_SAID = (
    (
        "make certain that no driver of it runs, and materialize the asset",
        "make certain that no driver of it runs, and `sparkscale start {0}`",
    ),
    ("materialize the asset to start it", "`sparkscale start {0}` starts it"),
    ("materialize its asset to start it", "`sparkscale start {0}` starts it"),
    ("materialize the stream to start it again", "`sparkscale start {0}` starts it again"),
    ("materialize the stream once that is settled", "`sparkscale start {0}` once that is settled"),
    (
        "run stop_orphan with whoever_declares_it: true",
        "`sparkscale forget {0} --whoever-declares-it`",
    ),
    ("run the job stop_orphan", "`sparkscale forget {0}`"),
    ("set whoever_declares_it: true", "add --whoever-declares-it"),
    (
        "materialize its asset with whoever_declares_it: true",
        "`sparkscale start {0} --whoever-declares-it`",
    ),
    (
        "by the job stop where it is declared, else by stop_orphan",
        "by `sparkscale stop` where it is declared, else by `sparkscale forget`",
    ),
    ("so it is no orphan: use stop", "so it is no orphan: `sparkscale stop {0}`"),
    ("use the stop job", "`sparkscale stop {0}`"),
    (
        "run stop again, or materialize the stream to keep it",
        "`sparkscale stop {0}`, or `sparkscale start {0}` to keep it",
    ),
    (
        "change max_executors and restart the stream",
        "change max_executors and `sparkscale restart {0}`",
    ),
    ("run the job declare_gone", "run the job declare_gone, in Dagster's UI,"),
)


def in_a_terminal(text: str, stream: str) -> str:
    """`text`, which is about `stream`, with commands for what is to be done.

    It may hold what a record does, as the error of a query: what a terminal would obey is a "?".
    """
    for page, terminal in _SAID:
        text = text.replace(page, terminal.format(stream))
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)
