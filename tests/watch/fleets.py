"""Rows of the fleet, as they could be."""

from hypothesis import strategies as st

from dagster_sparkscale.watch.fleet.rows import STATES, Failing, Row

NOW = 2000.0


def line(**fields) -> Row:
    stream = fields.pop("stream", "clicks")
    return Row(
        **{"stream": stream, "asset": (stream,), "state": "running", "seen_at": NOW} | fields
    )


def failing(check="ratio_below_one", urgent=False, text="R is 1.20", mark=""):
    return Failing(check, text, mark, urgent)


measured = st.none() | st.floats(0, 1e6)
counted = st.none() | st.integers(0, 10**6)
rows = st.builds(
    Row,
    stream=st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,62}", fullmatch=True),
    asset=st.lists(st.text(min_size=1), min_size=1, max_size=20).map(tuple),
    state=st.sampled_from(STATES),
    seen_at=st.floats(0, 1e10),
    since=st.none() | st.floats(0, 1e10),
    epoch=counted,
    ratio=measured,
    lag=measured,
    registered=counted,
    requested=counted,
    maximum=counted,
    decision=st.sampled_from(["", "hold", "scale to 4", "restart"]),
    reason=st.text(),
    acts=st.booleans(),
    gave_up=st.booleans(),
    restarts=counted,
    waits=st.none() | st.text(),
    failing=st.lists(
        st.builds(Failing, st.text(), st.text(), st.text(), st.booleans()), max_size=3
    ).map(tuple),
)
fleets = st.lists(rows, max_size=12, unique_by=lambda each: each.stream)
