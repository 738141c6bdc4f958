"""Which checkpoints `sparkscale doctor` says can't be kept."""

import pytest

from dagster_sparkscale.clusters.kubernetes.checkpoints import conditions
from tests.clusters.running import stream


def mounting(path, container="driver"):
    mounts = [{"name": "data", "mountPath": path}]
    return {"spec": {"containers": [{"name": container, "volumeMounts": mounts}]}}


def told(place, template=None, common=None, image="example/spark:4.3", **settings):
    declared = stream("clicks", checkpoint_location=place, spark_conf=settings)
    return list(conditions([declared], template or {}, common or {}, image))


@pytest.mark.parametrize("place", ["/data/clicks", "file:/data/clicks", "file:///data/clicks"])
@pytest.mark.parametrize(
    "template",
    [
        {},
        {"spec": {}},
        {"spec": {"containers": [{"name": "driver"}]}},
        mounting("/dat"),
        mounting("/data/clicks/x"),
        mounting("/data", "sidecar"),
    ],
)
def test_one_in_the_pod_itself_ends_with_it(place, template):
    (line,) = told(place, template)
    assert line.text.startswith(f"clicks: checkpoint_location = {place!r} is in the driver's pod")
    assert "s3a://" in str(line.cure)
    assert not line.wrong  # the image may have settings that nobody knows here


@pytest.mark.parametrize("place", [None, "s3a://bucket/clicks", "hdfs://name/clicks"])
def test_one_elsewhere_stays(place):
    assert told(place) == []


@pytest.mark.parametrize("mount", ["/data", "/data/", "/data/clicks"])
@pytest.mark.parametrize("place", ["/data/clicks", "file:/data/clicks", "file:///data/clicks"])
def test_one_on_a_volume_stays(place, mount):
    assert told(place, mounting(mount)) == []


def test_a_plain_path_is_on_the_file_system_that_spark_is_told_of():
    there = {"spark.hadoop.fs.defaultFS": "hdfs://name"}
    assert told("/data/clicks", common=there) == [] == told("/data/clicks", **there)
    assert len(told("file:/data/clicks", common=there)) == 1


@pytest.mark.parametrize("image", ["spark:4.3.0-python3", "apache/spark:4.3.0", "docker.io/spark"])
def test_sparks_own_image_has_no_way_to_a_store_of_a_cloud(image):
    (line,) = told("s3a://bucket/clicks", image=image)
    assert line.text == (
        "clicks: checkpoint_location = 's3a://bucket/clicks' needs org.apache.hadoop:hadoop-aws "
        f"and the AWS SDK, which Spark's own image {image!r} lacks"
    )
    assert "Clouds" in str(line.cure) and not line.wrong
    for place, needs in (("gs://b/c", "gcs-connector"), ("abfss://b@a/c", "hadoop-azure")):
        assert needs in told(place, image=image)[0].text
    assert told("hdfs://name/clicks", image=image) == []


def test_what_brings_jars_may_bring_that_way():
    own = {"image": "spark:4.3.0-python3"}
    for setting in ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"):
        assert told("s3a://bucket/clicks", **own, **{setting: "x"}) == []
        assert told("s3a://bucket/clicks", common={setting: "x"}, **own) == []
    for image in ("example/spark:4.3.0", "registry.example/apache/spark:4.3.0"):
        assert told("s3a://bucket/clicks", image=image) == []
