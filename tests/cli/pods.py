"""A run launcher that starts no runs, and knows only its own: as Dagster's for Kubernetes does."""

from collections.abc import Mapping
from typing import Any

from dagster._core.launcher.base import (
    CheckRunHealthResult,
    LaunchRunContext,
    RunLauncher,
    WorkerStatus,
)
from dagster._core.storage.dagster_run import DagsterRun
from dagster._serdes import ConfigurableClass, ConfigurableClassData


class Pods(RunLauncher[Any], ConfigurableClass):
    supports_check_run_worker_health = True

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        self._inst_data = inst_data
        super().__init__()

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> "Pods":
        return cls(inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        raise AssertionError("the command line launches nothing")

    def terminate(self, run_id: str) -> bool:
        return False

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        return CheckRunHealthResult(WorkerStatus.UNKNOWN, f"there is no pod of run {run.run_id}")
