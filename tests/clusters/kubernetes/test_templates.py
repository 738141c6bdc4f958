"""A pod template of the user's below what is ours."""

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.kubernetes.templates import merged

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=2), each, max_size=3)
    ),
    max_leaves=8,
)
PODS = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


def test_what_both_say_is_ours_and_what_is_added_stays():
    template = {"spec": {"restartPolicy": "Always", "priorityClassName": "high"}}
    ours = {"spec": {"restartPolicy": "Never"}}
    assert merged(template, ours) == {
        "spec": {"restartPolicy": "Never", "priorityClassName": "high"}
    }


def test_containers_are_known_by_their_name_and_others_stand_beside():
    template = {"containers": [{"name": "sidecar"}, {"name": "driver", "workingDir": "/x"}]}
    ours = {"containers": [{"name": "driver", "image": "spark"}]}
    assert merged(template, ours)["containers"] == [
        {"name": "sidecar"},
        {"name": "driver", "workingDir": "/x", "image": "spark"},
    ]


def test_a_volume_that_is_mounted_twice_stays_mounted_twice():
    template = [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}]
    ours = [{"name": "data", "mountPath": "/c"}, {"name": "other", "mountPath": "/a"}]
    assert merged(template, ours) == [
        {"name": "other", "mountPath": "/a"},
        {"name": "data", "mountPath": "/b"},
        {"name": "data", "mountPath": "/c"},
    ]


def test_tolerations_have_no_name_and_add_up():
    one, two = {"key": "spot", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}
    assert merged([one], [two]) == [one, two]


def test_plain_items_add_up():
    assert merged(["a"], ["b"]) == ["a", "b"]


def test_what_is_of_another_kind_is_ours():
    assert merged({"spec": "text"}, {"spec": {"a": 1}}) == {"spec": {"a": 1}}
    assert merged({"spec": [1]}, {"spec": "text"}) == {"spec": "text"}


@given(PODS)
def test_nothing_of_ours_is_lost_and_nothing_changes_without_a_template(ours):
    assert merged({}, ours) == ours
    assert merged(ours, {}) == ours


@given(PODS, PODS)
def test_a_value_of_ours_always_stands(template, ours):
    made = merged(template, ours)
    for key, value in ours.items():
        if not isinstance(value, dict | list):
            assert made[key] == value
    assert set(made) == set(template) | set(ours)
