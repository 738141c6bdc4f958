import pickle

import dagster as dg
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.decorator import streaming_asset
from dagster_sparkscale.declare.policies import AutoscalePolicy, RecoveryPolicy
from dagster_sparkscale.declare.streams import DStream, StructuredStream
from tests.declare.refusing import refusal
from tests.fakes import dstream, scaled, structured

REST = {"program": "jobs/a.py", "batch_interval": 10}


class TestFields:
    def test_little_needs_to_be_said(self):
        stream = StructuredStream(name="clicks", program="jobs/clicks.py", batch_interval="10s")
        assert stream.batch_interval == 10.0
        assert stream.bounds == Bounds(minimum=1, maximum=None, initial=1)
        assert stream.autoscale is None
        assert stream.recovery == RecoveryPolicy()
        assert stream.program_arguments() == ()

    def test_the_kind_is_that_of_the_class(self):
        assert (structured().kind, dstream().kind) == ("structured", "dstream")
        assert "kind = 'dstream': " in refusal(structured, kind="dstream")

    @pytest.mark.parametrize("name", ["a", "A1", "orders_by_day", "x" * 63, "class", "name"])
    def test_a_name_of_letters_digits_and_underscores_is_fine(self, name):
        assert structured(name).name == name

    @pytest.mark.parametrize(
        "name",
        ["", "1a", "a-b", "a b", "a.b", "a/b", "../a", "a\n", "é", "x" * 64, "_a", "__a__", "mro"],
    )
    def test_any_other_name_is_refused(self, name):
        assert refusal(structured, name).startswith("StructuredStream")
        assert f"name = {name!r}: " in refusal(structured, name)

    @pytest.mark.parametrize("program", ["", "jobs/a", "a.jar", "a.py.zip", "a.py "])
    def test_a_program_must_be_a_python_file(self, program):
        text = refusal(structured, program=program)
        assert text == (
            f"StructuredStream 'clicks': program = {program!r}: "
            "must be the path of a Python file (.py)"
        )

    def test_a_policy_must_say_how_it_decides(self):
        text = refusal(structured, autoscale=AutoscalePolicy())
        assert text == (
            "StructuredStream 'clicks': autoscale: AutoscalePolicy does not say how to decide; "
            "use RatioPolicy"
        )

    @pytest.mark.parametrize(
        ("written", "kept"), [("512m", "512m"), ("2G", "2g"), ("1024K", "1024k"), ("1t", "1t")]
    )
    @pytest.mark.parametrize("field", ["executor_memory", "driver_memory"])
    def test_memory_is_written_as_the_jvm_wants_it(self, field, written, kept):
        assert getattr(structured(**{field: written}), field) == kept

    @pytest.mark.parametrize("size", ["", "0g", "1", "1.5g", "g", "1gb", "-1g", "1 g", "1g\n", 1])
    @pytest.mark.parametrize("field", ["executor_memory", "driver_memory"])
    def test_any_other_memory_is_refused(self, field, size):
        assert f"{field} = {size!r}: " in refusal(structured, **{field: size})

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"batch_interval": 0}, "batch_interval = 0: "),
            ({"batch_interval": "soon"}, "batch_interval = 'soon': must be seconds or a duration"),
            ({"executor_cores": 0}, "executor_cores = 0: "),
            ({"executors": 0}, "executors = 0: "),
            ({"arguments": "--topic"}, "arguments = '--topic': must be a list, such as "),
            ({"autoscale": "ratio"}, "autoscale = 'ratio': "),
            ({"receivers": 1}, "receivers: no such field; "),
        ],
    )
    def test_a_field_with_a_wrong_value_is_named(self, fields, text):
        assert refusal(structured, **fields).startswith(f"StructuredStream 'clicks': {text}")

    @pytest.mark.parametrize("field", ["name", "program", "batch_interval"])
    def test_a_field_that_is_missing_is_named(self, field):
        fields = {"name": "clicks", **REST}
        del fields[field]
        text = refusal(StructuredStream, **fields)
        assert text.endswith(f"{field}: missing; it has no default")

    def test_every_fault_has_a_line_of_its_own(self):
        lines = refusal(structured, "a-b", executor_cores=0, nmae="x").splitlines()
        assert len(lines) == 3
        assert all(line.startswith("StructuredStream 'a-b': ") for line in lines)

    def test_a_stream_cannot_be_changed(self):
        with pytest.raises(ValueError, match="frozen"):
            structured().name = "other"

    def test_a_stream_can_be_sent_to_another_process(self):
        stream = scaled(max_executors=4)
        assert pickle.loads(pickle.dumps(stream)) == stream


class TestArguments:
    def test_a_list_is_kept(self):
        assert structured(arguments=["--topic", "a"]).program_arguments() == ("--topic", "a")

    def test_a_function_is_called_at_each_start(self):
        answers = iter([["--day", 1], ("--day", 2)])
        stream = structured(arguments=lambda: next(answers))
        assert stream.program_arguments() == ("--day", "1")
        assert stream.program_arguments() == ("--day", "2")


class TestDecorator:
    def test_the_functions_name_docstring_and_result_are_taken(self):
        @streaming_asset(StructuredStream, program="jobs/clicks.py", batch_interval="10s")
        def clicks():
            """Clicks per page."""
            return ["--topic", "clicks"]

        assert type(clicks) is StructuredStream
        assert (clicks.name, clicks.description) == ("clicks", "Clicks per page.")
        assert clicks.program_arguments() == ("--topic", "clicks")

    def test_a_function_that_returns_nothing_means_no_arguments(self):
        @streaming_asset(DStream, receivers=1, executor_cores=2, **REST)
        def orders():
            pass

        assert type(orders) is DStream
        assert orders.receivers == 1
        assert orders.description is None
        assert orders.program_arguments() == ()

    def test_fields_given_win_over_what_the_function_says(self):
        @streaming_asset(StructuredStream, name="other", description="mine", **REST)
        def clicks():
            "Docs."

        assert (clicks.name, clicks.description) == ("other", "mine")

    def test_the_function_is_called_at_each_start_and_not_before(self):
        calls = []

        @streaming_asset(StructuredStream, **REST)
        def clicks():
            calls.append(1)
            return [str(len(calls))]

        assert calls == []
        assert [clicks.program_arguments(), clicks.program_arguments()] == [("1",), ("2",)]

    def test_a_bad_declaration_is_refused_where_it_is_made(self):
        def declare():
            @streaming_asset(StructuredStream, program="a.jar", batch_interval=1)
            def clicks(): ...

        assert "program = 'a.jar'" in refusal(declare)


class TestSparkConf:
    def test_values_are_kept_as_spark_writes_them(self):
        stream = structured(
            spark_conf={"spark.a": True, "spark.b": False, "spark.c": 3, "spark.d": 0.5}
        )
        assert stream.spark_conf == {
            "spark.a": "true",
            "spark.b": "false",
            "spark.c": "3",
            "spark.d": "0.5",
        }

    @pytest.mark.parametrize(
        ("key", "field"),
        [
            ("spark.app.name", "name"),
            ("spark.executor.cores", "executor_cores"),
            ("spark.executor.memory", "executor_memory"),
            ("spark.driver.memory", "driver_memory"),
            ("spark.executor.instances", "executors, or autoscale.initial_executors"),
            ("spark.master", "the cluster the stream is built with"),
        ],
    )
    def test_a_setting_that_a_field_makes_is_refused(self, key, field):
        text = refusal(structured, spark_conf={key: "1"})
        assert text == f"StructuredStream 'clicks': spark_conf: drop {key}; it is set by {field}"

    @pytest.mark.parametrize(
        "key", ["spark.dynamicAllocation.enabled", "spark.streaming.dynamicAllocation.enabled"]
    )
    @pytest.mark.parametrize("value", ["true", "TRUE", " true ", True])
    def test_a_rival_allocation_is_refused(self, key, value):
        text = refusal(structured, spark_conf={key: value})
        assert f"drop {key} = true" in text
        assert "from_spark_conf" in text

    @pytest.mark.parametrize("value", ["false", False])
    def test_a_rival_that_is_off_is_fine(self, value):
        key = "spark.dynamicAllocation.enabled"
        assert structured(spark_conf={key: value}).spark_conf == {key: "false"}

    @pytest.mark.parametrize(
        ("conf", "right"),
        [
            ({"hadoop.x": "1"}, 'hadoop.x: a Spark setting begins with "spark."'),
            ({5: "1"}, '5: a Spark setting begins with "spark."'),
            ({"spark.a": "x\ny"}, "spark.a: a value must be one line"),
            ({"spark.a": "x\ry"}, "spark.a: a value must be one line"),
            ({"spark.a\nspark.b": "x"}, "'spark.a\\nspark.b': the name of a setting has no blanks"),
            ({"spark.a b": "x"}, "'spark.a b': the name of a setting has no blanks"),
            # As an unset environment variable would be: Spark would get the text "None".
            ({"spark.a": None}, "spark.a: a value must be text, a number or a boolean"),
            ({"spark.a": ["x"]}, "spark.a: a value must be text, a number or a boolean, not list"),
        ],
    )
    def test_what_spark_cannot_read_is_refused(self, conf, right):
        text = refusal(structured, spark_conf=conf)
        assert text.startswith(f"StructuredStream 'clicks': spark_conf: {right}")

    def test_executors_beside_a_policy_are_refused(self):
        text = refusal(structured, autoscale=RatioPolicy(), executors=3)
        assert text.startswith("StructuredStream 'clicks': executors = 3: drop it, or drop")


SECRET = "s3cr3t-"
secrets = st.text(st.characters(codec="utf-8"), max_size=20).map(lambda text: SECRET + text)


class TestSecrets:
    """What is in `spark_conf` and `env` is never repeated."""

    @given(secrets)
    def test_they_show_in_no_representation(self, secret):
        assume(not {*"\n\r\0"} & {*secret})
        stream = structured(spark_conf={"spark.key": secret}, env={"TOKEN": secret})
        for text in (repr(stream), str(stream), f"{[stream]}"):
            assert SECRET not in text
        assert stream.spark_conf["spark.key"] == secret

    @given(
        secret=secrets,
        fault=st.sampled_from(
            [
                {"name": "a-b"},
                {"program": "x"},
                {"batch_interval": -1},
                {"nonsense": 1},
                {"autoscale": RatioPolicy(), "executors": 1},
                {"executor_cores": 0},
            ]
        ),
    )
    def test_they_show_in_no_error_about_something_else(self, secret, fault):
        fields = {"spark_conf": {"spark.key": secret.strip()}, "env": {"TOKEN": secret}}
        assert SECRET not in refusal(StructuredStream, **{"name": "a"} | REST | fields | fault)

    @given(
        secret=secrets,
        conf=st.sampled_from(
            [
                lambda s: {"spark.key": s + "\n"},
                lambda s: {"spark.key": [s]},
                lambda s: {"spark.key": {"value": s}},
                lambda s: {"not.spark": s},
                lambda s: {"spark.master": s.strip()},
                lambda s: {"spark.key": s.strip(), "spark.dynamicAllocation.enabled": "true"},
                lambda s: s,
                lambda s: [s],
                lambda s: s.encode(),
            ]
        ),
    )
    def test_they_show_in_no_error_about_the_settings(self, secret, conf):
        assert SECRET not in refusal(structured, spark_conf=conf(secret))

    @given(
        secret=secrets,
        env=st.sampled_from([lambda s: {"A": [s]}, lambda s: {"A": s.encode() + b"\xff"}, str]),
    )
    def test_they_show_in_no_error_about_the_environment(self, secret, env):
        assert SECRET not in refusal(structured, env=env(secret))

    def test_they_show_in_no_error_about_a_misspelt_field(self):
        text = refusal(structured, spark_config={"spark.key": SECRET}, environment={"A": SECRET})
        assert SECRET not in text
        assert "spark_config: no such field" in text

    def test_they_show_in_no_error_of_pydantics_other_ways_in(self):
        fields = {"env": {"A": SECRET}, "name": "a-b"} | REST
        with pytest.raises(ValueError, match="must be letters") as refused:
            StructuredStream.model_validate(fields)
        assert SECRET not in str(refused.value)
        stream = structured()
        with pytest.raises(ValueError, match="frozen") as refused:
            stream.env = {"A": SECRET}
        assert SECRET not in str(refused.value)


def test_a_variable_that_nobody_looks_up_is_refused():
    for field in ("env", "spark_conf"):
        with pytest.raises(DeclarationError, match="an EnvVar is not looked up here"):
            structured(**{field: {"spark.token": dg.EnvVar("TOKEN")}})


@pytest.mark.parametrize("returned", ["--n 5", 5])
def test_a_function_that_returns_no_list_of_arguments_is_told_so(returned):
    stream = structured(arguments=lambda: returned)
    with pytest.raises(ValueError, match=r"the function returned .*; must be a list"):
        stream.program_arguments()
