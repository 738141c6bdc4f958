"""What is shipped of others is what was pinned."""

import pytest

from dev import vendored
from dev.vendored import FILES, STATIC, OtherContent, refuse_other, unpacked


@pytest.mark.parametrize("name", FILES)
def test_a_shipped_file_is_the_pinned_one(name: str) -> None:
    refuse_other(name, (STATIC / name).read_bytes())


def test_its_licence_and_version_go_along() -> None:
    assert "MIT License" in (STATIC / "uplot.LICENSE").read_text()
    assert f"v{vendored.VERSION}" in (STATIC / "uplot.js").read_text()[:200]


def test_another_package_is_refused() -> None:
    with pytest.raises(OtherContent, match="must be sha512-KIMV"):
        unpacked(b"another")


def test_another_file_is_refused() -> None:
    with pytest.raises(OtherContent, match=r"uplot\.css: sha256 [0-9a-f]{64}: must be df63"):
        refuse_other("uplot.css", b"another")
