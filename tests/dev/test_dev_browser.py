"""How a browser is come by on machines that allow one way, both, or none."""

import pytest

from dev import browser


@pytest.mark.parametrize(
    ("root", "apt", "names"),
    [
        (True, True, ["installing chromium with apt-get", "unpacking Debian's chromium in "]),
        (False, True, ["unpacking Debian's chromium in "]),
        (True, False, []),
        (False, False, []),
    ],
)
def test_only_what_the_machine_allows_is_tried(root, apt, names):
    ways = [way.name for way in browser.ways(root=root, apt=apt)]
    assert [way.removesuffix(str(browser.UNPACKED)) for way in ways] == names


def test_without_any_browser_it_says_what_to_do_and_fails(monkeypatch, capsys):
    monkeypatch.setattr(browser, "find", lambda: None)
    monkeypatch.setattr(browser, "ways", lambda **_: [])
    assert browser.main() == 1
    assert browser.HELP in capsys.readouterr().err
