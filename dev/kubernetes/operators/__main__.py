"""Plays the Spark operators in a namespace of a cluster that runs, until Ctrl-C or SIGTERM.

    kubectl create namespace streams
    python -m dev.kubernetes.operators --kubeconfig ... --namespace streams

The kubeconfig is the one that `python -m dev.kubernetes` has printed.
"""

import argparse
import sys
from pathlib import Path

from dev.daemons import ended_by_signals
from dev.kubernetes.api import Refused
from dev.kubernetes.operators.crds import install
from dev.kubernetes.operators.standin import Operator
from dev.kubernetes.running import reached


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dev.kubernetes.operators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kubeconfig", type=Path, required=True, help="of `dev.kubernetes`")
    parser.add_argument("--namespace", default="streams", help="that is watched; default: streams")
    options = parser.parse_args()
    ended = ended_by_signals()
    cluster = reached(options.kubeconfig.resolve())
    try:
        install(cluster.api)
    except (Refused, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    operator = Operator(cluster, options.namespace)
    operator.start()
    print(f"watches SparkApplications in {options.namespace}", flush=True)
    ended.wait()
    operator.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
