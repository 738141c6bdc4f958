"""What Spark has noted of stateful operators, as it is read back from a checkpoint."""

import json
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state.operators import Operator, operators, stores
from tests.driver.state.disk import Disk, put

JOIN = ("right-keyToNumValues", "left-keyToNumValues")


def noted(name: str, *of: str, version: str = "v1") -> str:
    info = {
        "operatorInfo": {"operatorName": name},
        "stateStoreInfo": [{"storeName": s} for s in of],
    }
    return f"{version}\n{json.dumps(info)}"


def test_stores_are_those_of_all_operators(tmp_path: Path) -> None:
    put(tmp_path, "state/10/_metadata/metadata", noted("symmetricHashJoin", *JOIN))
    put(tmp_path, "state/2/_metadata/v2/0", noted("transformWithStateExec", "old", version="v2"))
    last = noted("transformWithStateExec", "default", version="v2")
    put(tmp_path, "state/2/_metadata/v2/11", last)
    put(tmp_path, "state/_left/x", "no operator")
    disk = Disk(tmp_path)
    assert operators(disk)[10] == Operator("symmetricHashJoin", JOIN)
    assert stores(disk) == ((2, "default"), *((10, name) for name in sorted(JOIN)))


def test_there_are_none_where_there_is_no_state(tmp_path: Path) -> None:
    assert stores(Disk(tmp_path)) == ()


@pytest.mark.parametrize(
    "text",
    [
        *("", "v1", "v1\n[]", "v1\n{", noted("x", "default")[:-4], "v9\n7", noted("x")),
        *(noted("x", "default", version=each) for each in ("v2", "v3", "")),
    ],
)
def test_what_can_t_be_read_is_no_reason_to_leave_an_operator_out(
    tmp_path: Path, text: str
) -> None:
    put(tmp_path, "state/0/_metadata/metadata", noted("dedupe", "default"))
    put(tmp_path, "state/1/_metadata/metadata", text)
    disk = Disk(tmp_path)
    assert operators(disk)[1] is None
    with pytest.raises(ValueError, match="what Spark has noted of operator 1 can't be read"):
        stores(disk)


@pytest.mark.parametrize(
    "files", [{"v2/.0.tmp": "v2"}, {"v3/4": noted("x", "default", version="v3")}]
)
def test_nor_is_what_only_another_spark_can_read(tmp_path: Path, files: dict[str, str]) -> None:
    put(tmp_path, "state/0/_metadata/metadata", noted("dedupe", "default"))
    for name, text in files.items():
        put(tmp_path, f"state/0/_metadata/{name}", text)
    assert operators(Disk(tmp_path)) == {0: None}
