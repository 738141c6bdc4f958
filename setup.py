"""What pyproject.toml can't say: a wheel has the quick start, which `sparkscale demo` plays.

Its files are those at the top of the repository, which `make demo` plays and a team copies. Within
the wheel they lie in a folder of the package, so that no module of that name is anybody else's.
"""

from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDER = "dagster_sparkscale/quick_start"
FILES = (
    *("definitions.py", "workspace.yaml", "dagster.yaml"),
    *("jobs/*.py", "sensors/*.py"),
    # What these need of the rest, and no more (tests/dev/test_wheel.py).
    *(f"demo/{name}.py" for name in ("__init__", "acts", "follow", "load", "play", "report")),
    *(f"demo/{name}.py" for name in ("run", "shape")),
    *(f"dev/{name}.py" for name in ("__init__", "daemons", "dagster_ui", "installing", "jars")),
    *(f"dev/{name}.py" for name in ("java", "kinesis", "processes", "runs")),
    *("dev/kafka/*.py", "dev/kafka/*.lock", "dev/emulators/*.js*"),
)


class BuildWithQuickStart(build_py):
    """Builds the package, with the quick start unless it is installed in place."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source, target in self._quick_start():
            self.mkpath(str(Path(target).parent))
            self.copy_file(source, target, preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        built = super().get_outputs(include_bytecode)
        return built if self.editable_mode else [*built, *(to for _, to in self._quick_start())]

    def _quick_start(self) -> Iterator[tuple[str, str]]:
        """Each file with where it is built."""
        for pattern in FILES:
            found = sorted(Path().glob(pattern))
            if not found:
                raise FileNotFoundError(f"{pattern}: no such file of the quick start")
            for path in found:
                yield str(path), str(Path(self.build_lib, FOLDER, path))


setup(cmdclass={"build_py": BuildWithQuickStart})
