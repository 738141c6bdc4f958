"""Brings a cluster up, prints the path of its kubeconfig, and ends it on Ctrl-C or SIGTERM.

    python -m dev.kubernetes
    kubectl --kubeconfig ... get nodes

Needs root on Linux. The control plane is built first where it is not built yet: 5 to 10 minutes.
"""

import argparse
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from dagster_sparkscale.clusters.errors import ClusterError
from dev.daemons import ended_by_signals
from dev.installing import InstallFailed
from dev.kubernetes import images
from dev.kubernetes.asked import PORT, Asked
from dev.kubernetes.building import program
from dev.kubernetes.kubelet import Kubelet
from dev.kubernetes.network import NoNetwork, open_network
from dev.kubernetes.plane import AWAY, DidNotStart, Plane
from dev.kubernetes.pods import Node


def run(folder: Path, passed_on: list[str], ended: threading.Event) -> str | None:
    """Run a cluster in a folder until `ended`; returns what ended it before.

    Raises:
        ClusterError, DidNotStart, InstallFailed, NoNetwork: it can't be started; says why.
    """
    built, environment = program(), images.environment(passed_on)
    network = open_network()
    try:
        with Plane(built, folder, network.api_server, network.services) as plane:
            kubelet = Kubelet(Node(plane.api, network, folder / "pods", environment), PORT)
            asked = Asked(kubelet, network.api_server, plane.certificate)
            try:
                print(plane.kubeconfig, flush=True)
                while not ended.wait(0.2):
                    if (folder / AWAY).exists():
                        _have_an_outage(plane, folder / AWAY, ended)
                    if said := plane.ended():
                        return said
            finally:
                asked.close()
                kubelet.close()
    finally:
        network.close()
    return None


def _have_an_outage(plane: Plane, asked_for: Path, ended: threading.Event) -> None:
    plane.end_api_server()
    asked_for.write_text("it is away")
    while asked_for.exists() and not ended.wait(0.1):
        pass
    plane.start_api_server()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dev.kubernetes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, help="for its files; default: one that is removed")
    parser.add_argument(
        "--pass",
        dest="passed",
        action="append",
        default=[],
        metavar="NAME",
        help="a variable of yours that containers have as well",
    )
    parser.add_argument("--tethered", action="store_true", help="end also when stdin does")
    parser.add_argument("--build", action="store_true", help="only see to the program")
    options = parser.parse_args()
    ended = ended_by_signals(options.tethered)
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="kubernetes-"))).resolve()
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    try:
        if options.build:
            print(program())
        elif said := run(folder, options.passed, ended):
            print(said, file=sys.stderr)
            return 1
    except (ClusterError, DidNotStart, InstallFailed, NoNetwork) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
