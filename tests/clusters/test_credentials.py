"""What a driver and those who ask its agent know each other by."""

import subprocess
import sys
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from dagster_sparkscale.clusters.agents import credentials


def test_those_of_one_driver_have_nothing_in_common_with_those_of_the_next() -> None:
    one, next = credentials.make("clicks", 1), credentials.make("clicks", 1)
    assert one.token != next.token and one.certificate != next.certificate and one.key != next.key
    assert len(one.token) >= 32


def test_the_certificate_is_that_of_the_key_and_holds_whatever_the_clock_says() -> None:
    made = credentials.make("clicks", 7)
    certificate = x509.load_pem_x509_certificate(made.certificate.encode())
    key = serialization.load_pem_private_key(made.key.encode(), None)
    assert certificate.public_key() == key.public_key()
    assert certificate.subject.rfc4514_string() == "CN=sparkscale clicks\\, epoch 7"
    assert certificate.not_valid_before_utc == datetime(2000, 1, 1, tzinfo=UTC)
    assert certificate.not_valid_after_utc.year == 9999
    certificate.verify_directly_issued_by(certificate)
    [names] = [each.value for each in certificate.extensions]
    assert names.get_values_for_type(x509.DNSName) == ["sparkscale-agent"]


def test_a_long_name_is_no_hindrance() -> None:
    assert credentials.make("x" * 63, 123456).certificate.startswith("-----BEGIN CERTIFICATE-----")


def test_what_is_secret_does_not_show() -> None:
    made = credentials.make("clicks", 7)
    assert made.token not in repr(made) and "PRIVATE" not in repr(made)


def test_who_makes_none_does_not_pay_for_it() -> None:
    code = (
        "import sys; from dagster_sparkscale.clusters.agents import agent, credentials; "
        "sys.exit('cryptography' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
