import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dagster_sparkscale.declaration import DeclarationError
from dagster_sparkscale.policies import RatioPolicy, RecoveryPolicy
from dagster_sparkscale.streams import Bounds, DStream, StructuredStream, streaming_asset
from tests.fakes import dstream, scaled, structured

REST = {"program": "jobs/a.py", "batch_interval": 10}


def refusal(make, *args, **fields) -> str:
    with pytest.raises(DeclarationError) as refused:
        make(*args, **fields)
    return str(refused.value)


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
            ({"arguments": "--topic"}, "arguments.tuple[str, ...] = '--topic': "),
            ({"autoscale": "ratio"}, "autoscale = 'ratio': "),
            ({"receivers": 1}, "receivers: no such field; the fields are "),
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
        assume("\n" not in secret and "\r" not in secret)
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


class TestBounds:
    def test_a_policys_numbers_are_the_bounds(self):
        stream = scaled(min_executors=2, max_executors=8, initial_executors=4)
        assert stream.bounds == Bounds(minimum=2, maximum=8, initial=4)

    def test_a_new_driver_starts_with_the_minimum_unless_told_otherwise(self):
        assert scaled(min_executors=3).bounds == Bounds(minimum=3, maximum=None, initial=3)

    def test_a_stream_without_a_policy_starts_with_its_executors(self):
        assert structured(executors=4).bounds == Bounds(minimum=1, maximum=None, initial=4)

    def test_the_cores_of_the_application_are_a_ceiling_below_the_declared_maximum(self):
        stream = structured(
            executor_cores=2,
            spark_conf={"spark.cores.max": 9},
            autoscale=RatioPolicy(max_executors=10),
        )
        assert stream.bounds.maximum == 4
        assert stream.bounds.note == (
            "a maximum of 10 was declared, but 4 is all it can reach: "
            "spark.cores.max 9 / executor_cores 2"
        )

    def test_the_cores_of_the_application_are_the_maximum_where_none_is_declared(self):
        bounds = structured(spark_conf={"spark.cores.max": "6"}).bounds
        assert bounds.maximum == 6
        assert bounds.note.startswith("no maximum was declared, but 6 is all it can reach")

    def test_a_declared_maximum_that_the_cores_admit_stands_without_a_note(self):
        bounds = structured(
            spark_conf={"spark.cores.max": "6"}, autoscale=RatioPolicy(max_executors=6)
        ).bounds
        assert (bounds.maximum, bounds.note) == (6, None)

    def test_the_initial_number_is_lowered_to_what_the_cores_admit(self):
        bounds = structured(
            spark_conf={"spark.cores.max": "6"}, autoscale=RatioPolicy(initial_executors=10)
        ).bounds
        assert bounds.initial == 6

    @pytest.mark.parametrize("cores", ["", "0", "-1", "many", "4.0", "²", "true", "9" * 10])
    def test_cores_that_are_no_number_are_refused(self, cores):
        text = refusal(structured, spark_conf={"spark.cores.max": cores})
        assert "spark.cores.max" in text
        assert "must be a whole number above 0" in text

    def test_cores_below_the_minimum_are_refused(self):
        text = refusal(
            structured,
            executor_cores=4,
            spark_conf={"spark.cores.max": "11"},
            autoscale=RatioPolicy(min_executors=3),
        )
        assert "spark.cores.max = 11: must be at least 12, for 3 executor(s) of 4 core(s)" in text

    @given(st.integers(-5, 30), st.integers(1, 10), st.none() | st.integers(0, 10))
    def test_clamping_lands_inside_and_leaves_alone_what_is_inside(self, number, low, span):
        bounds = Bounds(low, None if span is None else low + span, low)
        clamped = bounds.clamp(number)
        assert clamped >= bounds.minimum
        assert bounds.maximum is None or clamped <= bounds.maximum
        inside = number >= low and (bounds.maximum is None or number <= bounds.maximum)
        assert (clamped == number) == inside

    @given(
        cores=st.none() | st.integers(1, 40),
        executor_cores=st.integers(1, 4),
        low=st.none() | st.integers(1, 8),
        high=st.none() | st.integers(1, 8),
        initial=st.none() | st.integers(1, 8),
        receivers=st.integers(0, 6),
    )
    def test_every_stream_that_is_accepted_can_run_within_its_bounds(
        self, cores, executor_cores, low, high, initial, receivers
    ):
        try:
            stream = dstream(
                receivers=receivers,
                executor_cores=executor_cores,
                spark_conf={} if cores is None else {"spark.cores.max": cores},
                autoscale=RatioPolicy(
                    min_executors=low, max_executors=high, initial_executors=initial
                ),
            )
        except DeclarationError:
            return
        bounds = stream.bounds
        assert 1 <= bounds.minimum <= bounds.initial
        assert bounds.maximum is None or bounds.initial <= bounds.maximum
        assert bounds.maximum is None or high is None or bounds.maximum <= high
        assert cores is None or bounds.maximum * executor_cores <= cores
        assert bounds.minimum * executor_cores > receivers
        assert low is None or bounds.minimum == low


class TestReceivers:
    @pytest.mark.parametrize(
        ("receivers", "cores", "minimum"),
        # As Spark, max(1, receivers); one more where those would have no core left for a batch.
        [(0, 1, 1), (1, 1, 2), (3, 1, 4), (1, 2, 1), (2, 2, 2), (4, 4, 4), (5, 2, 5)],
    )
    def test_the_minimum_follows_the_receivers(self, receivers, cores, minimum):
        stream = dstream(receivers=receivers, executor_cores=cores)
        assert stream.bounds.minimum == stream.bounds.initial == minimum

    def test_a_declared_minimum_is_taken_if_it_leaves_a_core(self):
        stream = dstream(receivers=4, executor_cores=4, autoscale=RatioPolicy(min_executors=2))
        assert stream.bounds.minimum == 2

    def test_a_declared_minimum_that_leaves_no_core_is_refused(self):
        text = refusal(dstream, receivers=4, autoscale=RatioPolicy(min_executors=4))
        assert "receivers = 4: would take every core of the minimum of 4 executor(s)" in text
        assert "raise autoscale.min_executors to 5" in text

    def test_a_maximum_below_what_the_receivers_need_is_refused(self):
        text = refusal(dstream, receivers=4, autoscale=RatioPolicy(max_executors=4))
        assert "autoscale.max_executors = 4: must be at least 5" in text

    def test_an_initial_number_below_what_the_receivers_need_is_refused(self):
        text = refusal(dstream, receivers=4, autoscale=RatioPolicy(initial_executors=3))
        assert "autoscale.initial_executors = 3: must be at least 5" in text

    def test_executors_below_what_the_receivers_need_are_refused(self):
        assert "executors = 2: must be at least 5" in refusal(dstream, receivers=4, executors=2)
        assert dstream(receivers=4, executors=5).bounds.initial == 5

    def test_receivers_cannot_be_negative(self):
        assert "receivers = -1: " in refusal(dstream, receivers=-1)
