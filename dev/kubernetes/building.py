"""The program of the control plane, built from its sources where it is not built yet.

`python -m dev.kubernetes.building` builds it and says how long that took.
"""

import os
import sys
from pathlib import Path

from dev.go_programs import GoProgram
from dev.installing import InstallFailed, say

PROGRAM = GoProgram(
    what="Kubernetes",
    name="control-plane",
    source=Path(__file__).parent / "control_plane",
    module="k8s.io/kubernetes",
    takes="5 to 10 minutes",
    says_version="k8s.io/component-base/version.gitVersion",
)


def program() -> Path:
    """The control plane's program, after building it where that was not done yet.

    It takes 5 to 10 minutes on two cores, once.

    Raises:
        InstallFailed: there is no Go and none can be installed, or the compiler refused.
    """
    return PROGRAM.built()


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
