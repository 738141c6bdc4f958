"""The rows of a fleet as people read them: a table, a list, a sentence. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from dagster_sparkscale.markdown import ARROW, escaped, fitted, shortened
from dagster_sparkscale.quantities import DASH, counted
from dagster_sparkscale.watch.fleet.behind import in_a_cell
from dagster_sparkscale.watch.fleet.rows import Row, in_trouble, worst_first
from dagster_sparkscale.watch.fleet.verdict import VERDICTS, lasting, verdict


def sentence(rows: Sequence[Row], standing: Sequence[str] = (), named: int = 3) -> str:
    """The fleet in a sentence: how many are how, and which are the worst.

    Args:
        standing: the problems that stand, in words; some of them may not be measured now.
    """
    counts = Counter(map(verdict, rows))
    states = ", ".join(f"{counts[each]} {each}" for each in VERDICTS if counts[each])
    text = f"{counted(len(rows), 'stream')}: {states}"
    bad = [row for row in worst_first(rows) if in_trouble(row)]
    worst = [f"{row.stream}: {shortened(row.note, SAID)}" for row in bad]
    said = worst or list(standing)
    if not said:
        return f"{text}. Nothing is wrong."
    more = f"; and {len(said) - named} more" if len(said) > named else ""
    return f"{text}. {'Worst' if worst else 'Not over yet'}: {'; '.join(said[:named])}{more}."


_COLUMNS = "|Stream|Health|R|Behind|Executors|Decision|"
_RULES = "|---|---|--:|--:|---|---|"
HEAD = f"{_COLUMNS}\n{_RULES}\n"
HEAD_OF_ALL = f"{_COLUMNS}Restarts, 24\u00a0h|What is up|\n{_RULES}--:|---|\n"
NOTE, SAID = 90, 200
"""Characters of a note in a table, and in a sentence or a short list; its stream's page has the
whole."""

NAME = 150
"""Characters of a stream's name at most, as Markdown."""
AND_MORE = 20
"""Characters to say how many there is no room for."""


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a table of GitHub's Markdown, in the order given; linked to their assets."""
    return HEAD_OF_ALL + "".join(f"{_line(row)}{_restarts(row)}|{_note(row)}|\n" for row in rows)


def in_pieces(rows: Sequence[Row], size: int, most: int) -> list[str]:
    """The first of the rows as at most `most` tables, each below `size` characters, which must do
    for two rows or so: one has at most 800. Without notes, for which a page has no room."""
    pieces: list[str] = []
    for row in rows:
        line = f"{_line(row, _UNBROKEN)}\n"
        if not pieces or len(pieces[-1]) + len(line) >= size:
            if len(pieces) == most:
                break
            pieces.append(HEAD)
        pieces[-1] += line
    return pieces


def notes(rows: Iterable[Row], size: int) -> str:
    """What is up with the first of the rows, as a list below `size` characters; empty for
    nothing."""
    noted = [row for row in rows if row.note]
    lines = [f"- {_linked(row)}: {_note(row, SAID)}\n" for row in noted]
    if sum(map(len, lines)) >= size - AND_MORE:
        lines = [f"- {_linked(row)}: {_note(row)}\n" for row in noted]
    text = ""
    for shown, line in enumerate(lines):
        if len(text) + len(line) + AND_MORE >= size:
            return f"{text}\nand {len(lines) - shown} more"
        text += line
    return text


def limit(row: Row) -> str:
    """What it may take, whether it takes that, and whether somebody has set it; empty: nothing
    limits it, or that is not known."""
    rate = "" if row.limit is None else f"{row.limit:,.{0 if row.limit >= 10 else 1}f}/s"
    parts = rate, "set" if row.limit_set else "", "reached" if row.throttled else ""
    return " ".join(filter(None, parts))


def asset_path(row: Row) -> str:
    """The path of the stream in Dagster's UI."""
    return "/assets/" + "/".join(quote(part, safe="") for part in row.asset)


def executors(row: Row) -> str:
    """`3 of 8`, or `3 -> 5 of 8` while some are to come or to leave."""
    if row.registered is None and row.requested is None:
        return DASH
    have = "?" if row.registered is None else str(row.registered)
    if row.requested not in (None, row.registered):
        have += f" -> {row.requested}"
    return have if row.maximum is None else f"{have} of {row.maximum}"


_UNBROKEN = "\u00a0"
_LONGEST_PATH = 300
"""Characters of a link; a row must fit into a small table."""


def _line(row: Row, space: str = " ") -> str:
    """A line of a table, but for its note.

    Args:
        space: in what is short; on a page a kind at which no line ends, which is six bytes.
    """
    cells = [
        _linked(row),
        lasting(row, space),
        DASH if row.ratio is None else f"{row.ratio:.2f}",
        escaped(in_a_cell(row)).replace(" ", space),
        escaped(executors(row).replace("->", ARROW)).replace(" ", space),
        escaped(row.decision),
    ]
    return f"|{'|'.join(cells)}|"


def _restarts(row: Row) -> str:
    return DASH if row.restarts is None else str(row.restarts)


def _linked(row: Row) -> str:
    name, path = fitted(row.stream, NAME), asset_path(row)
    return f"[{name}]({path})" if len(path) <= _LONGEST_PATH else name


def _note(row: Row, most: int = NOTE) -> str:
    return fitted(shortened(row.note, most), 3 * most)
