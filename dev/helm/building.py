"""Helm, built from its sources where it is not built yet."""

from pathlib import Path

from dev.go_programs import GoProgram

HELM = GoProgram(
    what="Helm",
    name="helm",
    source=Path(__file__).parent / "programs",
    module="helm.sh/helm/v3",
    takes="1 to 5 minutes",
    package="helm.sh/helm/v3/cmd/helm",
)
