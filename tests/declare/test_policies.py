import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.records.store import Submission
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.policies import AutoscalePolicy, RecoveryPolicy
from dagster_sparkscale.lifecycle.recovery import recover
from dagster_sparkscale.observe.evaluation import Evaluation
from tests.declare.refusing import refusal

FAMILY = "spark.streaming.dynamicAllocation."


def test_the_defaults_are_those_of_sparks_allocation_manager():
    policy = RatioPolicy()
    assert (policy.interval, policy.scale_up_ratio, policy.scale_down_ratio) == (60.0, 0.9, 0.3)
    assert policy.min_executors is policy.max_executors is policy.initial_executors is None


def test_the_design_documents_preset_scales_down_below_a_half():
    policy = RatioPolicy.spark_12133(min_executors=2, max_executors=9, initial_executors=3)
    assert (policy.scale_up_ratio, policy.scale_down_ratio) == (0.9, 0.5)
    assert (policy.min_executors, policy.max_executors, policy.initial_executors) == (2, 9, 3)
    assert policy.interval == 60.0


def test_the_preset_takes_every_other_field():
    policy = RatioPolicy.spark_12133(interval="15s", max_lag="1 min", max_executors=9)
    assert (policy.interval, policy.max_lag, policy.max_executors) == (15.0, 60.0, 9)
    assert "intervall" in refusal(RatioPolicy.spark_12133, intervall="15s")


def test_presets_of_a_subclass_are_of_the_subclass():
    class Mine(RatioPolicy):
        pass

    assert type(Mine.spark_12133()) is Mine
    assert type(Mine.from_spark_conf({})) is Mine


def test_a_policy_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        RatioPolicy().scale_up_ratio = 2.0


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"min_executors": 0}, "RatioPolicy: min_executors = 0: must be at least 1"),
        ({"max_executors": 0}, "RatioPolicy: max_executors = 0: must be at least 1"),
        ({"initial_executors": -1}, "RatioPolicy: initial_executors = -1: must be at least 1"),
        ({"min_executors": 1.5}, "RatioPolicy: min_executors = 1.5: "),
        ({"min_executors": "many"}, "RatioPolicy: min_executors = 'many': "),
        ({"scale_up_ratio": 0}, "RatioPolicy: scale_up_ratio = 0: must be above 0"),
        ({"scale_down_ratio": -0.1}, "RatioPolicy: scale_down_ratio = -0.1: must be above 0"),
        ({"scale_up_ratio": math.inf}, "RatioPolicy: scale_up_ratio = inf: "),
        ({"scale_up_ratio": math.nan}, "RatioPolicy: scale_up_ratio = nan: "),
        ({"interval": "soon"}, "RatioPolicy: interval = 'soon': must be seconds or a duration"),
        (
            {"min_executors": 5, "max_executors": 4},
            "RatioPolicy: max_executors = 4: must be at least min_executors = 5",
        ),
        (
            {"min_executors": 5, "initial_executors": 4},
            "RatioPolicy: initial_executors = 4: must be at least min_executors = 5",
        ),
        (
            {"max_executors": 5, "initial_executors": 6},
            "RatioPolicy: initial_executors = 6: must be at most max_executors = 5",
        ),
        (
            {"scale_up_ratio": 0.3},
            "RatioPolicy: scale_up_ratio = 0.3: must be above scale_down_ratio = 0.3",
        ),
        (
            {"maximum": 4},
            "RatioPolicy: maximum: no such field; the fields are ceiling, hand_pin, "
            "initial_executors, interval, max_executors, max_lag, min_executors, min_gain, "
            "retry_after, scale_down_ratio, scale_down_window, scale_up_ratio",
        ),
    ],
)
def test_a_policy_that_cannot_work_is_refused_by_field_value_and_what_is_right(fields, text):
    assert refusal(RatioPolicy, **fields).startswith(text)


def test_every_fault_has_a_line_of_its_own():
    lines = refusal(RatioPolicy, min_executors=0, max_executors=0, interval="x").splitlines()
    assert [line.split(" = ")[0] for line in lines] == [
        "RatioPolicy: interval",
        "RatioPolicy: min_executors",
        "RatioPolicy: max_executors",
    ]


@given(
    st.none() | st.integers(-2, 6),
    st.none() | st.integers(-2, 6),
    st.none() | st.integers(-2, 6),
)
def test_bounds_are_accepted_exactly_when_they_are_in_order(low, high, initial):
    given_numbers = [n for n in (low, initial, high) if n is not None]
    fine = given_numbers == sorted(given_numbers) and all(n >= 1 for n in given_numbers)
    fields = {"min_executors": low, "max_executors": high, "initial_executors": initial}
    if fine:
        assert RatioPolicy(**fields).min_executors == low
    else:
        refusal(RatioPolicy, **fields)


@given(st.floats(0.01, 10), st.floats(0.01, 10))
def test_up_must_be_above_down(up, down):
    if up > down:
        assert RatioPolicy(scale_up_ratio=up, scale_down_ratio=down).scale_up_ratio == up
    else:
        text = refusal(RatioPolicy, scale_up_ratio=up, scale_down_ratio=down)
        assert "must be above scale_down_ratio" in text


def test_a_policy_that_does_not_say_how_to_decide_changes_nothing():
    decision = AutoscalePolicy().decide(Bounds(1, 8, 1), Evaluation(window=60.0))
    assert decision == Hold("AutoscalePolicy does not say how to decide")


class TestFromSparkConf:
    def test_every_setting_of_the_family_is_taken_over(self):
        policy = RatioPolicy.from_spark_conf(
            {
                FAMILY + "enabled": "true",
                FAMILY + "testing": "false",
                FAMILY + "scalingInterval": "30s",
                FAMILY + "scalingUpRatio": "0.8",
                FAMILY + "scalingDownRatio": "0.2",
                FAMILY + "minExecutors": "2",
                FAMILY + "maxExecutors": "20",
                "spark.dynamicAllocation.initialExecutors": "4",
            }
        )
        assert policy == RatioPolicy(
            interval=30,
            scale_up_ratio=0.8,
            scale_down_ratio=0.2,
            min_executors=2,
            max_executors=20,
            initial_executors=4,
        )

    @pytest.mark.parametrize(("instances", "initial"), [("6", 6), ("1", 2), ("50", 20)])
    def test_it_begins_with_the_executors_that_the_job_begins_with(self, instances, initial):
        policy = RatioPolicy.from_spark_conf(
            {
                "spark.executor.instances": instances,
                "spark.dynamicAllocation.initialExecutors": "4",
                FAMILY + "minExecutors": "2",
                FAMILY + "maxExecutors": "20",
            }
        )
        assert policy.initial_executors == initial

    def test_a_number_of_executors_that_is_none_is_refused(self):
        text = refusal(RatioPolicy.from_spark_conf, {"spark.executor.instances": "some"})
        assert text == "spark.executor.instances = 'some': must be a whole number"

    def test_a_jobs_whole_configuration_can_be_passed_in(self):
        policy = RatioPolicy.from_spark_conf(
            {
                "spark.app.name": "orders",
                "spark.executor.cores": "4",
                "spark.dynamicAllocation.enabled": "false",
                "spark.dynamicAllocation.maxExecutors": "99",
                "spark.streaming.backpressure.enabled": "true",
                "spark.hadoop.fs.s3a.secret.key": "hunter2",
                FAMILY + "maxExecutors": "8",
            }
        )
        assert policy == RatioPolicy(max_executors=8)

    def test_a_job_whose_allocation_is_off_has_no_policy(self):
        key = FAMILY + "enabled"
        text = refusal(RatioPolicy.from_spark_conf, {key: "false", FAMILY + "maxExecutors": "8"})
        assert text.startswith(f"{key} = 'false': this job does not scale. Declare")
        assert refusal(RatioPolicy.from_spark_conf, {key: "on"}).endswith("must be true or false")

    def test_nothing_set_gives_the_defaults(self):
        assert RatioPolicy.from_spark_conf({}) == RatioPolicy()

    def test_an_interval_without_a_unit_is_in_seconds_as_in_spark(self):
        assert RatioPolicy.from_spark_conf({FAMILY + "scalingInterval": "90"}).interval == 90.0

    def test_an_unknown_setting_of_the_family_is_refused_and_the_known_ones_named(self):
        text = refusal(RatioPolicy.from_spark_conf, {FAMILY + "maxExecutor": "8"})
        assert text.startswith(f"{FAMILY}maxExecutor: not a setting Spark has")
        for known in ("scalingInterval", "scalingUpRatio", "scalingDownRatio", "maxExecutors"):
            assert FAMILY + known in text

    @pytest.mark.parametrize(
        ("key", "value", "right"),
        [
            (FAMILY + "scalingInterval", "1 fortnight", "must be seconds or a duration"),
            (FAMILY + "scalingUpRatio", "high", "must be a number"),
            (FAMILY + "scalingDownRatio", "", "must be a number"),
            (FAMILY + "minExecutors", "2.5", "must be a whole number"),
            (FAMILY + "maxExecutors", "many", "must be a whole number"),
            ("spark.dynamicAllocation.initialExecutors", "x", "must be a whole number"),
        ],
    )
    def test_an_unusable_value_is_refused_by_the_name_spark_has_for_it(self, key, value, right):
        text = refusal(RatioPolicy.from_spark_conf, {key: value})
        assert text.startswith(f"{key} = {value!r}: {right}")

    @pytest.mark.parametrize(
        "conf",
        [
            {FAMILY + "minExecutors": "0"},
            {FAMILY + "minExecutors": "5", FAMILY + "maxExecutors": "4"},
            {FAMILY + "scalingUpRatio": "0.2"},
            {FAMILY + "scalingUpRatio": "nan"},
            {FAMILY + "scalingDownRatio": "-1"},
            {FAMILY + "scalingInterval": "0"},
        ],
    )
    def test_what_spark_refuses_is_refused(self, conf):
        assert refusal(RatioPolicy.from_spark_conf, conf).startswith("RatioPolicy: ")

    @given(
        st.dictionaries(
            st.sampled_from(
                ["scalingInterval", "scalingUpRatio", "minExecutors", "maxExecutors", "enabled"]
            ).map(FAMILY.__add__)
            | st.text(),
            st.text(),
        )
    )
    def test_any_configuration_gives_a_policy_or_a_declaration_error(self, conf):
        try:
            policy = RatioPolicy.from_spark_conf(conf)
        except DeclarationError as error:
            assert str(error)
        else:
            assert policy.scale_up_ratio > policy.scale_down_ratio > 0


class TestRecoveryPolicy:
    def test_it_pauses_ten_seconds_at_first_and_gives_up_after_five_restarts(self):
        policy = RecoveryPolicy()
        assert (policy.first_delay, policy.longest_delay) == (10.0, 300.0)
        assert (policy.limit, policy.within) == (5, 3600.0)

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"limit": 0}, "RecoveryPolicy: limit = 0: must be at least 1"),
            # More than every cluster manager remembers could not be counted.
            ({"limit": 21}, "RecoveryPolicy: limit = 21: must be at most 20"),
            (
                {"limit": 16},
                "RecoveryPolicy: limit = 16: can't be reached, so the stream would be restarted "
                "for ever: these pauses allow 15 restarts in within = 1 h; must be at most 15, or "
                "within longer",
            ),
            (
                {"within": 20},
                "RecoveryPolicy: limit = 5: can't be reached, so the stream would be restarted "
                "for ever: these pauses allow 1 restart in within = 20 s; must be at most 1,",
            ),
            ({"first_delay": 0}, "RecoveryPolicy: first_delay = 0: must be above 0"),
            ({"within": "x"}, "RecoveryPolicy: within = 'x': must be seconds or a duration"),
            (
                {"first_delay": "10 min"},
                "RecoveryPolicy: longest_delay = 300: must be at least first_delay = 600",
            ),
        ],
    )
    def test_one_that_cannot_work_is_refused(self, fields, text):
        assert refusal(RecoveryPolicy, **fields).startswith(text)

    @pytest.mark.parametrize("limit", [1, 2, 5, 15])
    def test_so_many_restarts_of_a_driver_that_fails_at_once_are_made_and_no_more(
        self, limit: int
    ) -> None:
        policy = RecoveryPolicy(limit=limit)
        now, history = 1e6, [Submission(1, 1e6, "manual")]
        while len(history) < 100:
            driver = Driver("clicks", history[-1].epoch, DriverState.FAILED, now, ended_at=now)
            outcome = recover(policy, driver, history, now)
            while isinstance(outcome, Hold) and not outcome.gave_up:
                now += 1
                outcome = recover(policy, driver, history, now)
            if isinstance(outcome, Hold):
                break
            history.append(Submission(history[-1].epoch + 1, now, "recovery"))
        assert len(history) == limit + 1
