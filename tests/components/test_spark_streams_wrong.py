"""What is wrong in a `defs.yaml` is said with file and line, and shows no secret."""

from pathlib import Path

import pytest

import dagster_sparkscale as ours
from tests.components.documents import (
    CLUSTER,
    STREAM,
    document,
    errors,
    refusal,
)

WRONG: dict[str, tuple[str, list[str]]] = {
    "a field": (
        STREAM + "    executor_cores: 0\n    env: {TOKEN: 12}",
        [
            "defs.yaml:9: StructuredStream 'clicks': executor_cores = 0: must be at least 1",
            "defs.yaml:10: StructuredStream 'clicks': env: TOKEN: its value must be text, not int",
        ],
    ),
    "an unknown field": (
        STREAM + "    receivers: 2",
        ["defs.yaml:9: StructuredStream 'clicks': receivers: no such field; only a DStream has it"],
    ),
    "a field of a policy": (
        STREAM
        + "    executor_cores: 0\n    autoscale:\n      type: RatioPolicy\n      interval: x",
        [
            "defs.yaml:9: StructuredStream 'clicks': executor_cores = 0: must be at least 1",
            "defs.yaml:12: RatioPolicy: interval = 'x': must be seconds or a duration such as "
            '"10s", "500ms" or "2 min"',
        ],
    ),
    "fields that do not go together": (
        STREAM + "    autoscale: {type: RatioPolicy}\n    executors: 2",
        [
            "defs.yaml:5: StructuredStream 'clicks': executors = 2: drop it, or drop autoscale; "
            "with a policy, autoscale.initial_executors says how many to start with"
        ],
    ),
    "a window": (
        STREAM + "    calendar:\n      windows:\n        - {cron: x, duration: 1h, freeze: true}",
        [
            "defs.yaml:11: Window: cron = 'x': must be a cron schedule of five fields, such as "
            '"0 3 * * SUN", or a word for one, such as "@daily"'
        ],
    ),
    "no such policy": (
        STREAM + "    autoscale: {type: RatoPolicy}",
        [
            "defs.yaml:9: type = 'RatoPolicy': no such policy; did you mean 'RatioPolicy'? must be "
            "CapacityPolicy, RatioPolicy, or the import path of one of your own"
        ],
    ),
    "no policy": (
        STREAM + "    autoscale: {max_executors: 8}",
        [
            "defs.yaml:9: type: missing; must be CapacityPolicy, RatioPolicy, or the import path "
            "of one of your own"
        ],
    ),
    "a backtest": (
        STREAM + "backtest: {cron: x}",
        [
            "defs.yaml:9: Backtest: cron = 'x': must be a cron schedule of five fields, such as "
            '"0 3 * * SUN", or a word for one, such as "@daily"',
        ],
    ),
    "no module": (
        STREAM + "    autoscale: {type: nowhere.Policy}",
        ["defs.yaml:9: type = 'nowhere.Policy': can't be imported: No module named 'nowhere'"],
    ),
    "a relative module": (
        STREAM + "    autoscale: {type: .policies.Mine}",
        [
            "defs.yaml:9: type = '.policies.Mine': can't be imported: the 'package' argument is "
            "required to perform a relative import for '.policies'"
        ],
    ),
    "no text": (
        STREAM + "    autoscale: {type: [RatioPolicy]}",
        [
            "defs.yaml:9: type = ['RatioPolicy']: no such policy; did you mean 'RatioPolicy'? "
            "must be CapacityPolicy, RatioPolicy, or the import path of one of your own"
        ],
    ),
    "no class of the kind": (
        STREAM + "    autoscale: {type: pathlib.Path}",
        ["defs.yaml:9: type = 'pathlib.Path': must be a subclass of AutoscalePolicy"],
    ),
    "no stream": ("\nstreams: clicks", ["defs.yaml:4: must be a list, not a str"]),
    "no fields": (
        "\nstreams: [clicks]",
        ["defs.yaml:4: must be the fields of a stream, not a str"],
    ),
    "a template": (
        STREAM.replace("10s", '"{{ interval }}"'),
        ["defs.yaml:8: batch_interval: the template can't be rendered: 'interval' is undefined"],
    ),
    "a variable": (
        STREAM + '    checkpoint_location: "{{ env.NOWHERE }}"',
        [
            "defs.yaml:9: checkpoint_location: the template can't be rendered: the environment "
            "variable NOWHERE is not set; env('NOWHERE', 'value') gives a value for that"
        ],
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_by_the_declaration_with_file_and_line(what: str) -> None:
    attributes, said = WRONG[what]
    assert refusal(document(CLUSTER + attributes)) == said


def test_what_is_wrong_with_a_cluster_is_said_with_file_and_line() -> None:
    wrong = "cluster:\n  type: LocalCluster\n  workerss: 3\n  workers: 0"
    assert refusal(document(wrong + STREAM)) == [
        "defs.yaml:5: LocalCluster: workerss: no such field; did you mean 'workers'? the fields "
        "are " + ", ".join(sorted(ours.LocalCluster.model_fields))
    ]


def test_a_secret_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    text = document(
        CLUSTER
        + STREAM
        + '    env: {"TOKEN=hunter2": hunter2, A: "{{ env.TOKEN }}\\0"}\n'
        + '    spark_conf: {password: "{{ env.TOKEN }}"}'
    )
    assert "hunter2" not in "\n".join(refusal(text))


@pytest.mark.parametrize(
    "wrong",
    [
        "type: [StructuredStream]",
        "type: {StructuredStream: 1}",
        "type: broken_by_hand.Stream",
        "type: StructuredStream\n    backtest: x",
    ],
)
def test_nor_is_what_stands_beside_a_type_that_is_none(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_by_hand.py").write_text("raise RuntimeError('no table of policies')")
    monkeypatch.syspath_prepend(tmp_path)
    stream = STREAM.replace("type: StructuredStream", wrong)
    text = document(f"{CLUSTER}{stream}    env: {{PW: hunter2}}\n")
    said = errors(text)
    assert len(said) >= 1 and "hunter2" not in "\n".join(said)


def test_what_no_file_can_be_named_is_refused_as_a_program_by_the_declaration() -> None:
    """Such as the program itself."""
    [said] = refusal(document(CLUSTER + STREAM.replace("jobs/clicks.py", "x" * 300)))
    assert said.startswith("defs.yaml:7: StructuredStream 'clicks': program = 'xxx")
    assert said.endswith("must be the path of a Python file (.py)")
