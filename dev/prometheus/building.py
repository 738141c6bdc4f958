"""Prometheus and promtool: those of this machine, or of Debian's package, or built from their
sources where there is neither."""

import shutil
from pathlib import Path

from dev.go_programs import GoProgram
from dev.installing import Way, cache, ensure, unpack_with_apt

_SOURCE = Path(__file__).parent / "programs"
_COMMANDS = "github.com/prometheus/prometheus/cmd"
# Of the ways to find what is scraped, the clouds' are half of the program.
_FLAGS = ("-tags", "remove_all_sd")
_UNPACKED = cache() / "prometheus"


def program(name: str) -> Path:
    """The file of a program.

    Args:
        name: prometheus or promtool.

    Raises:
        InstallFailed: there is none, and it can't be built here.
    """
    unpack = Way(
        f"unpacking Debian's prometheus in {_UNPACKED}",
        lambda: unpack_with_apt("prometheus", _UNPACKED),
    )
    ways = [unpack] if shutil.which("apt-get") else []
    return ensure(name, lambda: _find(name), ways) or _made_of_sources(name).built()


def _find(name: str) -> Path | None:
    found = shutil.which(name) or shutil.which(name, path=str(_UNPACKED / "usr" / "bin"))
    return None if found is None else Path(found)


def _made_of_sources(name: str) -> GoProgram:
    return GoProgram(
        what=f"Prometheus ({name})",
        name=name,
        source=_SOURCE,
        module="github.com/prometheus/prometheus",
        takes="1 to 5 minutes",
        package=f"{_COMMANDS}/{name}",
        flags=_FLAGS,
    )
