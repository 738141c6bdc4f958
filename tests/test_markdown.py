"""Text as Dagster's pages show it: as it was written, and no wider than there is room."""

import pytest

from dagster_sparkscale.markdown import clock, cut, escaped, fitted
from tests.watch.reader import written

NOW = 1_800_000_000.0  # 2027-01-15 08:00 UTC


class TestWords:
    @pytest.mark.parametrize(
        ("at", "now", "text"),
        [
            (NOW, None, "2027-01-15 08:00 UTC"),
            (NOW, NOW, "08:00"),
            (NOW, NOW + 16 * 3600 - 1, "08:00"),
            (NOW, NOW + 16 * 3600, "01-15 08:00"),
            (NOW, NOW + 365 * 86400, "01-15 08:00"),
        ],
    )
    def test_a_moment_without_the_day_where_that_is_today(self, at, now, text):
        assert clock(at, now) == text

    @pytest.mark.parametrize(
        ("text", "most", "left"), [("abcd", 4, "abcd"), ("abcde", 4, "a..."), ("", 4, "")]
    )
    def test_a_text_is_cut_where_it_is_too_long(self, text, most, left):
        assert cut(text, most) == left

    def test_specials_are_escaped_and_lines_joined(self):
        assert escaped("at http://a") == "at http\\://a"
        assert escaped("a\\`*_[]<>|~&\r\nb") == "a\\\\\\`\\*\\_\\[\\]\\<\\>\\|\\~\\&  b"

    def test_a_long_word_may_be_broken_at_its_separators(self):
        log = "/data/state_of_all_streams/clicks/driver.log"
        shown = "/data/state\\_of\\_all\\_![]()streams/clicks/![]()driver.log"
        assert fitted(f"a_b, log {log}", 999) == f"a\\_b, log {shown}"
        assert fitted("x" * 25, 999) == "x" * 20 + "![]()" + "x" * 5
        assert fitted("x_" * 12, 999) == "x\\_" * 12

    def test_a_long_address_is_no_link_to_its_beginning(self):
        address = "http://host:4040/" + "x" * 20
        assert fitted(address, 999) == "http![]()://host:4040/![]()" + "x" * 20
        assert fitted("at http://a " + "x" * 25, 999).startswith("at http\\://a xxx")

    @pytest.mark.parametrize("most", range(3, 55))
    def test_what_is_cut_ends_with_no_half_of_anything(self, most):
        whole = "a " + "x" * 20 + "![]()" + "\\_" * 11
        text = fitted("a " + "x" * 20 + "_" * 11, most)
        assert len(text) <= most
        assert whole == text or whole.startswith(text.removesuffix("..."))
        assert written(text)[1] <= {"paragraph_open", "paragraph_close", "text", "text_special"}
