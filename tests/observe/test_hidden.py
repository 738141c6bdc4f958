import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.markdown import carried, hidden

values = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values, st.booleans())
def test_whatever_json_is_hidden_is_found_again_and_the_comment_ends_behind_it(value, ascii):
    markdown = hidden("see `history`", json.dumps(value, ensure_ascii=ascii))
    assert json.loads(carried(markdown)) == value
    said, _, comment = markdown.partition("\n\n<!--")
    assert said == "see `history`"
    # Markdown's comments end at the first of these.
    assert comment.index("-->") == len(comment) - 3


@pytest.mark.parametrize("other", [None, 5, "", "text", "-->", "<!--", "<!-- a --> b", {"a": 1}])
def test_what_somebody_else_has_written_carries_nothing(other):
    assert carried(other) is None


def test_nothing_is_carried_as_nothing():
    assert carried(hidden("", "")) == ""
