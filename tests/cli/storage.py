"""A storage of Dagster's that can't be reached."""

from typing import Any, Self

from dagster._core.storage.runs import SqliteRunStorage
from dagster._serdes import ConfigurableClassData


class Down(SqliteRunStorage):
    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: dict[str, Any]
    ) -> Self:
        raise ConnectionError("connection to server at 10.0.0.1, port 5432 failed")
