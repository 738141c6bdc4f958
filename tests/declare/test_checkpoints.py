"""One checkpoint has one name, however it is spelled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.declare.checkpoints import DEFAULT_FS, normalized
from dagster_sparkscale.declare.declaration import DeclarationError
from tests.fakes import structured

AZURE = ("abfs", "abfss", "wasb", "wasbs")


@pytest.mark.parametrize(
    ("spellings", "name"),
    [
        (["/x", "/x/", "//x", "file:/x", "file:///x", "FILE:///x/", "/a/../x", " /x"], "file:///x"),
        (["s3://b/x", "s3a://b/x/", "s3n://b//x/.", "S3A://B/x"], "s3a://b/x"),
        (["hdfs://nn:8020/a/b", "hdfs://NN:8020/a/./b"], "hdfs://nn:8020/a/b"),
        (["/a b", "file:/a b/"], "file:///a b"),
        (["s3a://KEY:Secret@b/x", "s3a://b/x"], "s3a://b/x"),
        (["/a?b#c"], "file:///a?b#c"),
        (["abfss://box@A.net/x", "abfss://box@a.net/x/"], "abfss://box@a.net/x"),
    ],
)
def test_spellings_of_one_place(spellings: list[str], name: str) -> None:
    assert [normalized(each) for each in spellings] == [name] * len(spellings)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/x", "/y"),
        ("/x", "/X"),
        ("s3://a/x", "s3://b/x"),
        ("hdfs://n/x", "/x"),
        ("/x", "/x/y"),
        ("/a%20b", "/a b"),
        *[(f"{scheme}://prod@a.net/x", f"{scheme}://test@a.net/x") for scheme in AZURE],
    ],
)
def test_two_places_stay_two(one: str, other: str) -> None:
    assert normalized(one) != normalized(other)


@pytest.mark.parametrize(
    "location", ["ck/x", "./ck", "../ck", "~/ck", "file:ck/x", "hdfs:ck", "", " ", "s3a://["]
)
def test_what_is_another_place_for_every_process_is_refused_when_it_is_declared(
    location: str,
) -> None:
    with pytest.raises(DeclarationError) as caught:
        structured(checkpoint_location=location)
    fault = f"StructuredStream 'clicks': checkpoint_location = {location!r}: must be an absolute"
    assert str(caught.value).startswith(fault)


def test_a_path_without_a_scheme_is_on_the_file_system_that_spark_is_told_of() -> None:
    settings = {DEFAULT_FS: "hdfs://nn:8020"}
    assert normalized("/x", settings) == normalized("hdfs://nn:8020/x") == "hdfs://nn:8020/x"
    assert normalized("file:///x", settings) == "file:///x"


@given(st.text(min_size=1))
def test_it_is_a_name_of_its_own(location: str) -> None:
    try:
        name = normalized("/" + location)
    except ValueError:  # what is no URL at all, such as one with half an IPv6 address
        return
    assert name.startswith("file:///")
