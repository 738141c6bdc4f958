"""mutmut's command line, less the changes that are none of behaviour: those of wording.

mutmut changes every text in quotes. One with a space in it is written for people, and no test
should hold on to its words; one without is a name, a key or a unit, and may well be wrong.
"""

from collections.abc import Iterable

import libcst as cst
from mutmut.__main__ import cli
from mutmut.mutation import mutators


def operator_string(node: cst.BaseString) -> Iterable[cst.BaseString]:
    if isinstance(node, cst.SimpleString) and node.raw_value and " " not in node.raw_value:
        yield from mutators.operator_string(node)


mutators.mutation_operators[:] = [
    (kind, operator_string if operator is mutators.operator_string else operator)
    for kind, operator in mutators.mutation_operators
]

if __name__ == "__main__":
    cli()
