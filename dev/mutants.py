"""`python -m dev.mutants [MODULE ...]`: small changes of the pure modules that no test notices.

mutmut makes the changes and runs the tests, one process per change; this says which modules and
which tests, keeps all that in a folder of its own, and prints what survived. Not part of CI: a
survivor is a question to a person, and now and then the answer is that nothing is wrong.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from dev import runs
from dev.survivors import GOAL, Verdict, judge, report

PACKAGE = "dagster_sparkscale"
FOLDER = Path(".mutants")
LOG = FOLDER / "mutmut.log"
_ELSEWHERE = (
    "tests/clusters/test_submission.py::"
    "test_what_is_sent_unpacks_itself_where_there_is_nothing_but_python"
)
SHIPPED = "pyspark_kinesis_direct.py"

# The modules that decide and do nothing else, each with the tests that stand beside it. The tests
# of whole deployments would notice more, minutes later: what a module decides is to be seen here.
MODULES: dict[str, tuple[str, ...]] = {
    "declare/decisions.py": ("autoscale/test_ratio*.py", "watch/test_assess*.py"),
    "observe/evaluation.py": (
        "observe/test_evaluation*.py",
        "autoscale/test_reasons*.py",
        "autoscale/test_warm_up*.py",
    ),
    "autoscale/lag.py": ("autoscale/test_lag*.py", "autoscale/test_reasons*.py"),
    "backpressure/advice.py": ("backpressure/test_recommend*.py",),
    "backpressure/aims.py": ("backpressure/test_aims.py",),
    "backpressure/knobs.py": ("backpressure/test_knobs.py",),
    "backpressure/recommend.py": ("backpressure/test_recommend*.py",),
    "backpressure/recommend_options.py": ("backpressure/test_recommend*.py",),
    "backpressure/recommend_rates.py": ("backpressure/test_recommend*.py",),
    "backpressure/sustained.py": (
        "backpressure/test_sustained.py",
        "backpressure/test_recommend*.py",
    ),
    "backpressure/verify.py": ("backpressure/test_verify.py",),
    "clusters/receiver_counts.py": ("clusters/test_receiver_counts.py",),
    "declare/receivers.py": ("declare/test_receivers.py",),
    "observe/receivers.py": ("observe/test_receivers.py",),
    "receivers/balance.py": ("receivers/test_balance.py",),
    "receivers/count.py": ("receivers/test_count.py",),
    "receivers/decide.py": ("receivers/test_decide.py",),
    "watch/receivers.py": ("watch/test_receivers.py",),
    "clusters/tuned.py": ("clusters/test_tuned.py",),
    "autoscale/steps.py": (
        "autoscale/test_ratio*.py",
        "autoscale/test_lag*.py",
        "autoscale/test_reasons*.py",
        "autoscale/test_shards*.py",
        "autoscale/test_beside_limits*.py",
    ),
    "autoscale/throttle.py": ("autoscale/test_beside_limits*.py",),
    "observe/throttling.py": ("observe/test_evaluation*.py", "autoscale/test_beside_limits*.py"),
    "autoscale/spark_conf.py": ("declare/test_policies*.py",),
    "autoscale/ratio.py": (
        "autoscale/test_beside_limits*.py",
        "autoscale/test_lag*.py",
        "autoscale/test_ratio*.py",
        "autoscale/test_reasons*.py",
        "autoscale/test_shards*.py",
        "autoscale/test_warm_up*.py",
    ),
    "declare/backpressure.py": (
        "declare/test_limits*.py",
        "declare/test_backpressure*.py",
        "declare/test_drift*.py",
    ),
    "declare/limits.py": (
        "declare/test_limits*.py",
        "declare/test_backpressure*.py",
        "declare/test_wrong_values*.py",
    ),
    "declare/limit_checks.py": ("declare/test_limits*.py", "declare/test_backpressure*.py"),
    "declare/reserved.py": (
        "declare/test_limits*.py",
        "declare/test_backpressure*.py",
        "declare/test_streams*.py",
    ),
    "declare/checkpoints.py": ("declare/test_checkpoints*.py",),
    "declare/drift.py": ("declare/test_drift*.py",),
    "declare/faults.py": ("declare/test_wrong_values*.py", "declare/test_streams*.py"),
    "declare/fields.py": ("declare/test_wrong_values*.py", "declare/test_streams*.py"),
    "declare/key_groups.py": ("declare/test_key_groups*.py", "declare/test_state*.py"),
    "declare/waves.py": ("declare/test_waves*.py",),
    "declare/state.py": ("declare/test_state*.py",),
    "declare/bounds.py": ("declare/test_stream_bounds*.py", "autoscale/test_shards*.py"),
    "clusters/fate.py": ("clusters/test_fate*.py", "clusters/host/test_drivers*.py"),
    "clusters/driver_options.py": (
        "clusters/test_driver_options*.py",
        "clusters/host/test_drivers*.py",
    ),
    "clusters/host/environments.py": ("clusters/host/test_environments*.py",),
    "clusters/standalone/room.py": ("clusters/test_room*.py",),
    "clusters/yarn/applications.py": ("clusters/yarn/test_applications*.py",),
    "clusters/yarn/submission.py": ("clusters/yarn/test_submission*.py",),
    "clusters/kubernetes/names.py": ("clusters/kubernetes/test_names*.py",),
    "clusters/kubernetes/templates.py": ("clusters/kubernetes/test_templates*.py",),
    "clusters/kubernetes/spark.py": ("clusters/kubernetes/test_spark_in_a_pod*.py",),
    "clusters/kubernetes/manifests.py": ("clusters/kubernetes/test_manifests*.py",),
    "clusters/kubernetes/applications.py": ("clusters/kubernetes/test_applications*.py",),
    "clusters/kubernetes/checkpoints.py": ("clusters/kubernetes/test_checkpoints*.py",),
    "clusters/kubernetes/telling.py": ("clusters/kubernetes/test_telling*.py",),
    "clusters/kubernetes/room.py": ("clusters/kubernetes/test_room*.py",),
    "clusters/standalone/submission.py": ("clusters/test_submission*.py",),
    "clusters/standalone/told.py": ("clusters/test_told*.py",),
    "clusters/spark_settings.py": ("clusters/test_spark_settings*.py",),
    "driver/backpressure/cost_model.py": (
        "driver/backpressure/test_cost_model*.py",
        "driver/backpressure/test_work*.py",
    ),
    "driver/backpressure/estimators.py": ("driver/backpressure/test_estimators*.py",),
    "driver/backpressure/pid.py": ("driver/backpressure/test_pid.py",),
    "driver/backpressure/seen.py": ("driver/backpressure/test_estimators*.py",),
    "driver/backpressure/work.py": ("driver/backpressure/test_work*.py",),
    "driver/backpressure/limiter.py": ("driver/backpressure/test_limiter*.py",),
    "driver/backpressure/plan.py": ("driver/backpressure/test_plan*.py",),
    "driver/backpressure/sharing.py": ("driver/backpressure/test_sharing*.py",),
    "driver/backpressure/source.py": ("driver/backpressure/test_limiter*.py",),
    "driver/backpressure/timeline.py": ("driver/backpressure/test_timeline*.py",),
    "driver/history.py": ("driver/test_history*.py",),
    "driver/kafka_lag.py": ("driver/test_kafka_lag*.py",),
    "driver/last_words.py": ("observe/test_last_words*.py",),
    "driver/operation_order.py": ("driver/test_operation_order*.py",),
    "driver/progress.py": (
        "driver/test_progress*.py",
        "driver/test_queries*.py",
        "driver/test_reports*.py",
    ),
    "driver/reports.py": ("driver/test_reports*.py",),
    "driver/shipped.py": ("driver/test_shipped*.py",),
    "driver/stopped.py": ("driver/test_stopped*.py",),
    "driver/victims.py": ("driver/test_victims*.py",),
    "driver/evacuation.py": ("driver/test_evacuation*.py",),
    "driver/receiver_rates.py": ("driver/test_receiver_amounts*.py",),
    "driver/receiver_watch.py": ("driver/test_receiver_watch*.py",),
    "cli/tail.py": ("cli/test_tail*.py",),
    "cli/words.py": ("cli/test_words*.py",),
    "durations.py": ("test_durations*.py",),
    "lifecycle/recovery.py": ("lifecycle/test_recovery*.py",),
    "observe/hidden.py": ("observe/test_hidden*.py",),
    "observe/last_words.py": ("observe/test_last_words*.py", "observe/test_raised*.py"),
    "observe/minutes.py": ("observe/test_minutes*.py",),
    "observe/status.py": ("observe/test_status*.py",),
    "observe/state.py": ("observe/test_state.py",),
    "observe/stopped.py": ("observe/test_stopped*.py",),
    "declare/policies.py": ("declare/test_policies*.py",),
    "sources/kinesis/dstream/commits.py": ("sources/kinesis/test_commits*.py",),
    "sources/kinesis/quota.py": ("sources/kinesis/test_quota*.py",),
    "sources/kinesis/page_sizes.py": ("sources/kinesis/test_page_sizes*.py",),
    "sources/kinesis/positions.py": ("sources/kinesis/test_positions*.py",),
    "sources/kinesis/shards.py": ("sources/kinesis/test_shards*.py",),
    "sources/kinesis/span.py": ("sources/kinesis/test_span*.py",),
    "state/aims.py": ("state/test_aims*.py",),
    "state/cost.py": ("state/test_cost*.py",),
    "typed_json.py": ("observe/test_status*.py", "clusters/host/test_folders*.py"),
    "watch/alerts.py": ("watch/test_alerts.py",),
    "watch/assess.py": ("watch/test_assess*.py", "watch/test_own_policy*.py"),
    "watch/coverage.py": ("watch/test_coverage*.py",),
    "watch/fleet.py": ("watch/test_fleet.py",),
    "watch/fleet_memory.py": ("watch/test_fleet_events.py",),
    "watch/fleet_words.py": ("watch/test_fleet_words.py",),
    "backpressure/set_limits.py": ("backpressure/test_set_limits.py",),
    "clusters/limits.py": ("clusters/test_limits*.py",),
    "watch/backpressure.py": ("watch/test_backpressure.py",),
    "watch/glance.py": ("watch/test_glance*.py",),
    "watch/health.py": ("watch/test_health*.py",),
    "watch/problems.py": ("watch/test_problems.py",),
    "watch/state.py": ("watch/test_state.py",),
    "watch/kafka.py": ("watch/test_kafka.py",),
    "watch/memory.py": ("watch/test_memory*.py",),
    "watch/occasions.py": ("watch/test_occasions*.py",),
    "watch/picture.py": ("watch/test_picture*.py",),
    "watch/sighting.py": (
        "watch/test_assess*.py",
        "watch/test_collect*.py",
        "watch/test_missed.py",
    ),
    "watch/words.py": ("watch/test_words.py", "watch/test_glance*.py"),
    "clusters/kubernetes/launch.py": (
        "clusters/kubernetes/test_starts_cut_off.py",
        "clusters/kubernetes/test_launch.py",
        "clusters/kubernetes/test_drivers.py",
    ),
    "clusters/kubernetes/store.py": ("clusters/kubernetes/test_store.py",),
    "clusters/kubernetes/glance.py": ("clusters/kubernetes/test_glance.py",),
    "clusters/kubernetes/drivers.py": (
        "clusters/kubernetes/test_drivers.py",
        "clusters/kubernetes/test_driver_pods*.py",
    ),
    "clusters/kubernetes/cluster.py": (
        "clusters/kubernetes/test_cluster*.py",
        "clusters/kubernetes/test_drivers.py",
        "clusters/kubernetes/test_glance.py",
    ),
}


def chosen(names: list[str]) -> list[str]:
    """The modules that `names` mean: `ratio`, `autoscale/ratio.py` or `autoscale.ratio`.

    Raises:
        ValueError: one of them means none, or several.
    """
    if not names:
        return sorted(MODULES)
    found = []
    for name in names:
        wanted = "/" + name.removesuffix(".py").replace(".", "/") + ".py"
        fitting = [module for module in MODULES if f"/{PACKAGE}/{module}".endswith(wanted)]
        if len(fitting) != 1:
            which = " or ".join(fitting) or ", ".join(sorted(MODULES))
            raise ValueError(f"ONLY={name}: must be one module; there are {which}")
        found += fitting
    return found


def test_files(modules: list[str]) -> list[str]:
    """The files with the tests of `modules`."""
    patterns = {pattern for module in modules for pattern in MODULES[module]}
    return sorted({str(path) for pattern in patterns for path in Path("tests").glob(pattern)})


def configuration(modules: list[str]) -> str:
    """What mutmut is to be told, as a part of a pyproject.toml."""
    options = {
        "source_paths": [PACKAGE],
        "only_mutate": [f"{PACKAGE}/{module}" for module in modules],
        # The tests of the Kinesis source share fixtures that know the emulators, one runs what the
        # docs show, and what is shipped to drivers has a module of its own.
        "also_copy": ["dev", "docs", SHIPPED],
        # For the type checker, and for whoever reads logs.
        "do_not_mutate_patterns": [r"^\s*assert ", r"^\s*log\."],
        "pytest_add_cli_args_test_selection": test_files(modules),
        # In the one process that mutmut forks, whatever the suite uses otherwise.
        "pytest_add_cli_args": [
            *("-o", "addopts="),
            *("-p", "no:xdist"),
            *("-p", "no:cacheprovider"),
            *("-p", "no:tests.leftovers"),  # one run, of thousands of calls of pytest
            "--hypothesis-profile=mutants",
            # It runs where there is no mutmut, which changed code asks which change it is.
            f"--deselect={_ELSEWHERE}",
        ],
        # A busy machine must not pass for a change that never ends.
        "use_git_change_detection": False,
        "timeout_constant": 2.0,
        "timeout_multiplier": 10.0,
    }
    # JSON of lists, texts and numbers is TOML.
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    return "\n".join(["", "[tool.mutmut]", *lines, ""])


def prepare(modules: list[str]) -> None:
    """A copy of what is needed, so that the changes are made to nothing else."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in (PACKAGE, "tests", "dev", "docs"):
        shutil.copytree(name, FOLDER / name, ignore=unwanted)
    shutil.copy(SHIPPED, FOLDER)
    settings = Path("pyproject.toml").read_text(encoding="utf-8") + configuration(modules)
    (FOLDER / "pyproject.toml").write_text(settings, encoding="utf-8")


def run() -> int:
    """Have mutmut make and try all changes; its exit code says only whether it could."""
    program = Path(__file__).with_name("mutmut_run.py").resolve()
    command = [sys.executable, str(program), "run", "--max-children", str(os.cpu_count() or 2)]
    # The code to be tested is that in the folder, not what the environment names.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if sys.stdout.isatty():
        return subprocess.run(command, cwd=FOLDER, env=environment).returncode
    with LOG.open("wb") as log:
        return subprocess.run(
            command, cwd=FOLDER, env=environment, stdout=log, stderr=subprocess.STDOUT
        ).returncode


def results(modules: list[str]) -> list[Verdict]:
    verdicts = []
    for module in modules:
        made = FOLDER / "mutants" / PACKAGE / module
        exit_codes = json.loads(made.with_name(made.name + ".meta").read_text(encoding="utf-8"))
        verdicts.append(
            judge(
                f"{PACKAGE}/{module}",
                (FOLDER / PACKAGE / module).read_text(encoding="utf-8"),
                made.read_text(encoding="utf-8"),
                exit_codes["exit_code_by_key"],
            )
        )
    return verdicts


def main(names: list[str]) -> int:
    try:
        modules = chosen(names)
    except ValueError as error:
        print(error)
        return 2
    prepare(modules)
    print(f"{len(modules)} module(s), {len(test_files(modules))} files of tests ...", flush=True)
    if code := run():
        if LOG.exists():
            print(LOG.read_text(encoding="utf-8", errors="replace")[-5000:])
        print(f"mutmut could not run (exit code {code}); see above")
        return 2
    verdicts = results(modules)
    print(report(verdicts))
    return int(sum(len(v.survivors) for v in verdicts) > GOAL * sum(v.mutants for v in verdicts))


if __name__ == "__main__":
    runs.begin()
    sys.exit(main(sys.argv[1:]))
