"""What a terminal says: commands for what is to be done, and nothing that it would obey."""

import re
from collections.abc import Mapping

from dagster_sparkscale.cli.locations import as_given
from dagster_sparkscale.remedy import Remedy, worded

COMMANDS: Mapping[Remedy, str] = {
    Remedy.START: "`sparkscale start {0}` starts it",
    Remedy.START_FIRST: "`sparkscale start {0}` starts it",
    Remedy.START_AGAIN: "`sparkscale start {0}` starts it again",
    Remedy.START_ONCE_SETTLED: "`sparkscale start {0}` once that is settled",
    Remedy.START_ONCE_NONE_RUNS: (
        "make certain that no driver of it runs, and `sparkscale start {0}`"
    ),
    Remedy.TAKE_OVER: "`sparkscale start {0} --whoever-declares-it`",
    Remedy.RAISE_MAXIMUM: "change max_executors and `sparkscale restart {0}`",
    Remedy.STOP: "`sparkscale stop {0}`",
    Remedy.STOP_TO_RUN_NONE: "`sparkscale stop {0}`",
    Remedy.STOP_AGAIN_OR_KEEP: "`sparkscale stop {0}`, or `sparkscale start {0}` to keep it",
    Remedy.STOP_OTHER: "by `sparkscale stop` where it is declared, else by `sparkscale forget`",
    Remedy.STOP_ORPHAN: "`sparkscale forget {0}`",
    Remedy.STOP_WHOSEVER: "`sparkscale forget {0} --whoever-declares-it`",
    Remedy.CONFIRM_WHOSEVER: "add --whoever-declares-it",
    Remedy.DECLARE_GONE: "run the job declare_gone, in Dagster's UI,",
}
"""What each remedy is in a terminal, {0} being the stream."""


def in_a_terminal(text: str, stream: str) -> str:
    """`text`, which is about `stream`, with commands for what is to be done.

    The commands in it can be copied: they have the options that this one was given. It may hold
    what a record does, as the error of a query: what a terminal would obey is a "?".
    """
    said = worded(text, {remedy: how.format(stream) for remedy, how in COMMANDS.items()})
    if given := as_given():
        said = re.sub(
            rf"`(sparkscale [\w-]+ {re.escape(stream)}(?: [^`]*?)??)(?:{re.escape(given)})?`",
            lambda command: f"`{command[1]}{given}`",
            said,
        )
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in said)
