"""Prometheus and promtool, built from their sources where they are not built yet."""

from pathlib import Path

from dev.go_programs import GoProgram

_SOURCE = Path(__file__).parent / "programs"
_COMMANDS = "github.com/prometheus/prometheus/cmd"
# Of the ways to find what is scraped, the clouds' are half of the program.
_FLAGS = ("-tags", "remove_all_sd")


def _program(name: str) -> GoProgram:
    return GoProgram(
        what=f"Prometheus ({name})",
        name=name,
        source=_SOURCE,
        module="github.com/prometheus/prometheus",
        takes="1 to 5 minutes",
        package=f"{_COMMANDS}/{name}",
        flags=_FLAGS,
    )


PROMETHEUS = _program("prometheus")
PROMTOOL = _program("promtool")
