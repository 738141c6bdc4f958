"""`python -m benchmarks [NAME ...]`: run the benchmarks, print a table, write report.json."""

import sys
from importlib import import_module

from benchmarks.figures import Figure, table, write_report
from dev import runs

BENCHMARKS = (
    "event_log_bytes",
    "sensor_tick",
    "scale",
    "steering_tick",
    "rescale_run",
    "agent_core_share",
    "executor_start",
    "kinesis",
    "setup_seconds",
    "fleet",
    "clusters",
    "faults",
    "soak",
    "state",
    "backpressure",
    "receivers",
    "policies",
    "policies_live",
    "suite",
)


def main(names: list[str]) -> int:
    for name in names:
        if name not in BENCHMARKS:
            print(f"ONLY={name}: no such benchmark; there are {', '.join(BENCHMARKS)}")
            return 2
    figures: list[Figure] = []
    for name in names or BENCHMARKS:
        print(f"{name} ...", flush=True)
        measured: list[Figure] = import_module(f"benchmarks.{name}").measure()
        figures += measured
        # Written after each: a later one that fails loses nothing.
        write_report(figures)
    print(table(figures))
    return 0


if __name__ == "__main__":
    runs.end_as_by_ctrl_c()
    runs.begin()
    sys.exit(main(sys.argv[1:]))
