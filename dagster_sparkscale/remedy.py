"""What a person is to do next, carried as data within a text: each surface words it. Pure.

Most people read a text on a page of Dagster, so as a string it has the words of that page. Whoever
puts one into another text makes a `WithRemedy` of both: an f-string keeps the words alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from string import Formatter
from typing import Any, Self


class Remedy(Enum):
    """What a person can do about a stream; the value is how a page of Dagster words it."""

    START = "materialize its asset to start it"
    START_FIRST = "materialize the asset to start it"
    START_AGAIN = "materialize the stream to start it again"
    START_ONCE_SETTLED = "materialize the stream once that is settled"
    START_ONCE_NONE_RUNS = "make certain that no driver of it runs, and materialize the asset"
    TAKE_OVER = "materialize its asset with whoever_declares_it: true"
    RAISE_MAXIMUM = "change max_executors and restart the stream"
    STOP = "use stop"
    STOP_TO_RUN_NONE = "use the stop job"
    STOP_AGAIN_OR_KEEP = "run stop again, or materialize the stream to keep it"
    STOP_OTHER = "by the job stop where it is declared, else by stop_orphan"
    STOP_ORPHAN = "run the job stop_orphan"
    STOP_WHOSEVER = "run stop_orphan with whoever_declares_it: true"
    CONFIRM_WHOSEVER = "set whoever_declares_it: true"
    DECLARE_GONE = "run the job declare_gone"


class WithRemedy(str):
    """A text for people that says what to do."""

    parts: tuple[str | Remedy, ...]

    def __new__(cls, *parts: str | Remedy) -> Self:
        """A text of these parts; of a part that is a `WithRemedy` the remedies are kept."""
        flat: list[str | Remedy] = []
        for part in parts:
            flat += part.parts if isinstance(part, WithRemedy) else (part,)
        words = (part.value if isinstance(part, Remedy) else part for part in flat)
        new = super().__new__(cls, "".join(words))
        new.parts = tuple(flat)
        return new

    def __str__(self) -> Self:
        """Itself, so that the text of an error that was made with it is still a `WithRemedy`."""
        return self

    @property
    def advises(self) -> bool:
        """Whether there is a remedy in it."""
        return any(isinstance(part, Remedy) for part in self.parts)

    def packed(self) -> list[Any]:
        """The parts as JSON has them."""
        return [{"remedy": p.name} if isinstance(p, Remedy) else p for p in self.parts]

    @classmethod
    def unpacked(cls, parts: Sequence[Any], text: str) -> str:
        """The text that was `packed`; `text` as it is where a remedy in it is another release's."""
        try:
            return cls(*(p if isinstance(p, str) else Remedy[p["remedy"]] for p in parts))
        except KeyError:
            return text

    @classmethod
    def filled(cls, template: str, **values: object) -> Self:
        """`template` with its names replaced by these, as by `str.format`, but with their
        remedies."""
        pieces = Formatter().parse(template)
        return cls(
            *(p for text, name, *_ in pieces for p in (text, str(values[name]) if name else ""))
        )


def joined(texts: Iterable[str], between: str = "; ") -> WithRemedy:
    """`texts` as one, as by `str.join`, but with their remedies."""
    first, *others = [*texts] or [""]
    return WithRemedy(first, *(part for text in others for part in (between, text)))


def worded(text: str, words: Mapping[Remedy, str]) -> str:
    """`text` for a surface that has `words` of its own for what is to be done."""
    if not isinstance(text, WithRemedy):
        return text
    return "".join(words[part] if isinstance(part, Remedy) else part for part in text.parts)
