import json
import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dagster_sparkscale.typed_json import Malformed, read


@dataclass(frozen=True)
class Measured:
    name: str = ""
    at: float = 0.0
    count: int = 0
    more: tuple["Measured", ...] = ()


KIND = TypeAdapter(Measured)


@given(st.text(), st.floats() | st.integers(), st.integers() | st.integers(-(2**70), 2**70))
def test_a_number_is_read_or_refused_by_its_size_alone(name, at, count):
    """However it is written, and whatever stands in texts beside it."""
    text = json.dumps({"name": name, "more": [{"at": at, "count": count}]})
    if all(math.isfinite(number) and abs(number) < 2**63 for number in (at, count)):
        assert read(KIND, text).more == (Measured("", at, count),)
        assert read(KIND, text.encode()) == read(KIND, text)
    else:
        with pytest.raises(Malformed, match="must be a number of 64 bits"):
            read(KIND, text)


@pytest.mark.parametrize(
    "number",
    ["9223372036854775808", "1e19", "1E+19", "-1E400", "0.1e21", "NaN", "-Infinity"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
def test_what_no_later_arithmetic_survives_is_refused_in_any_encoding(number, encoding):
    with pytest.raises(Malformed, match="64 bits"):
        read(KIND, f'{{"at": {number}}}'.encode(encoding))
