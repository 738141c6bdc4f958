"""Asks the running Dagster webserver for what a person would click on in the UI."""

import time
from collections.abc import Callable
from typing import Any

import requests

AT_ONCE = """
telemetry:
  enabled: false
run_coordinator:
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
"""
"""What a dagster.yaml says for runs to be launched at once: by default they wait for the daemon's
queue."""
_LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on PipelineNotFoundError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""
_LOCATIONS = """
query Locations {
  workspaceOrError {
    ... on Workspace {
      locationEntries {
        name loadStatus
        locationOrLoadError {
          __typename
          ... on PythonError { message }
          ... on RepositoryLocation { repositories { name } }
        }
      }
    }
    ... on PythonError { message }
  }
}
"""


class DagsterError(Exception):
    """Dagster answered, and what it answered is an error."""


class DagsterUI:
    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        # A proxy for the outside world must not get between this machine and itself.
        self._session.trust_env = False

    def wait_until_loaded(self, seconds: float, check: Callable[[], None]) -> tuple[str, str]:
        """Wait for the code location; returns its name and that of its repository.

        Args:
            check: called while waiting; raises when there is nothing left to wait for.

        Raises:
            DagsterError: the code location does not load; has the error.
            TimeoutError: no answer in time.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            check()
            try:
                workspace = self._ask(_LOCATIONS, {})["workspaceOrError"]
            except requests.RequestException:
                workspace = {}
            for entry in workspace.get("locationEntries", ()):
                outcome = entry["locationOrLoadError"] or {}
                if outcome.get("__typename") == "PythonError":
                    raise DagsterError(f"definitions.py does not load: {outcome['message']}")
                if entry["loadStatus"] == "LOADED" and outcome.get("repositories"):
                    return entry["name"], outcome["repositories"][0]["name"]
            time.sleep(0.5)
        raise TimeoutError(f"Dagster did not load definitions.py within {seconds:.0f} s")

    def materialize(self, location: tuple[str, str], asset: str) -> str:
        """Launch a run that materializes `asset`; returns its id."""
        return self.launch(
            location,
            "__ASSET_JOB",
            {"execution": {"config": {"in_process": {}}}},
            assetSelection=[{"path": [asset]}],
            assetCheckSelection=[],
        )

    def launch(
        self, location: tuple[str, str], job: str, config: dict[str, Any], **selection: Any
    ) -> str:
        """Launch a run of `job`; returns its id.

        Raises:
            DagsterError: it was not launched; says why.
        """
        params = {
            "selector": {
                "repositoryLocationName": location[0],
                "repositoryName": location[1],
                "jobName": job,
                **selection,
            },
            "runConfigData": config,
        }
        outcome = self._ask(_LAUNCH, {"params": params})["launchRun"]
        if outcome["__typename"] != "LaunchRunSuccess":
            raise DagsterError(f"{job} was not launched: {outcome}")
        run_id: str = outcome["run"]["runId"]
        return run_id

    def _ask(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        response = self._session.post(
            f"{self.url}/graphql", json={"query": query, "variables": variables}, timeout=30
        )
        if response.status_code >= 500:
            response.raise_for_status()
        answer = response.json()
        if answer.get("errors"):
            raise DagsterError("; ".join(error["message"] for error in answer["errors"]))
        data: dict[str, Any] = answer["data"]
        return data
