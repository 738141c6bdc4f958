"""What mutmut has found, for people: how much survived, and each survivor in a line. Pure."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

# What pytest ended with where it found nothing wrong, no test, or (mutmut's own) was not asked as
# no test comes near the function. All else means that the change was noticed, be it by an endless
# loop or a crash.
_SURVIVED = (0, 5, 33)
_NOT_TRIED = (None, 2)


@dataclass(frozen=True)
class Survivor:
    path: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


@dataclass(frozen=True)
class Verdict:
    """Of one module."""

    path: str
    mutants: int
    survivors: tuple[Survivor, ...]


def judge(path: str, source: str, changed: str, exit_codes: Mapping[str, int | None]) -> Verdict:
    """
    Args:
        source: the module.
        changed: the module as mutmut wrote it, with each function once for every change of it.
        exit_codes: what the tests ended with, by the names that mutmut gives to changes.

    Raises:
        ValueError: a change was not tried.
    """
    if untried := [name for name, code in exit_codes.items() if code in _NOT_TRIED]:
        raise ValueError(f"{path}: {len(untried)} changes were not tried, such as {untried[0]}")
    originals, variants = _functions(source), _functions(changed)
    survivors = [
        _survivor(path, originals, variants, name.rpartition(".")[2])
        for name, code in exit_codes.items()
        if code in _SURVIVED
    ]
    survivors.sort(key=lambda survivor: survivor.line)
    return Verdict(path, len(exit_codes), tuple(survivors))


@dataclass(frozen=True)
class _Function:
    line: int
    text: tuple[str, ...]


def _functions(source: str) -> dict[str, _Function]:
    """By name; methods as `Class.name`."""
    lines = source.splitlines()
    found = {}

    def collect(body: Sequence[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                text = tuple(line.strip() for line in lines[node.lineno - 1 : node.end_lineno])
                found[prefix + node.name] = _Function(node.lineno, text)

    collect(ast.parse(source).body, "")
    return found


def _survivor(
    path: str, originals: Mapping[str, _Function], variants: Mapping[str, _Function], name: str
) -> Survivor:
    # x_name__mutmut_1, and xǁClassǁname__mutmut_1 for a method.
    plain = name.partition("__mutmut_")[0]
    _, owner, method = plain.split("ǁ") if "ǁ" in plain else ("", "", plain.removeprefix("x_"))
    prefix = f"{owner}." if owner else ""
    original, variant = originals[prefix + method], variants[prefix + name]
    # The first line holds the name, which differs: the change may be there, in a default.
    after = (variant.text[0].replace(name, method), *variant.text[1:])
    edits = [
        edit
        for edit in SequenceMatcher(None, original.text, after, autojunk=False).get_opcodes()
        if edit[0] != "equal"
    ]
    first, last = edits[0][1], edits[-1][2]
    return Survivor(
        path,
        original.line + first,
        " ".join(original.text[first:last]),
        " ".join(after[edits[0][3] : edits[-1][4]]) or "(nothing)",
    )


def missed(goal: float, verdicts: Sequence[Verdict]) -> bool:
    """Whether a larger share of the changes has survived than `goal`."""
    survived, mutants = _count(verdicts)
    return survived > goal * mutants


def report(group: str, goal: float, verdicts: Sequence[Verdict]) -> str:
    """What survived in the modules of a group, of which at most the share `goal` may."""
    width = max((len(verdict.path) for verdict in verdicts), default=0)
    lines = [f"{f'{group} module':{width}}  mutants  killed  survived  share"]
    for verdict in verdicts:
        survived = len(verdict.survivors)
        lines.append(
            f"{verdict.path:{width}}  {verdict.mutants:7}  {verdict.mutants - survived:6}  "
            f"{survived:8}  {_percent(survived, verdict.mutants):>5}"
        )
    lines += ["", *(str(each) for verdict in verdicts for each in verdict.survivors)]
    survived, mutants = _count(verdicts)
    lines += [
        "",
        f"{group} modules: {survived} of {mutants} survived: {_percent(survived, mutants)}; "
        f"the goal is at most {goal:.0%}",
        "",
    ]
    return "\n".join(lines)


def _count(verdicts: Sequence[Verdict]) -> tuple[int, int]:
    """Survivors, and all changes."""
    return sum(len(each.survivors) for each in verdicts), sum(each.mutants for each in verdicts)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
