"""What is set for pip, in uv's words."""

import pytest

from dev.pip_settings import for_uv, of_environment, only_pip_can, parse, without_password


def test_the_command_wins_over_the_global_section_and_the_environment_over_both():
    listing = (
        ":env:.timeout='9'\n"
        "global.index-url='https://global/simple'\n"
        "global.timeout='5'\n"
        "install.index-url='https://install/simple'\n"
        "freeze.timeout='1'\n"
        "some warning of pip's\n"
    )
    assert parse(listing) == {"index-url": "https://install/simple", "timeout": "9"}


def test_a_mirror_with_further_indexes_is_searched_as_pip_would():
    settings = parse(
        "global.index-url='https://user:secret@mirror/simple'\n"
        "global.extra-index-url='\\nhttps://a/simple\\nhttps://b/simple'\n"
        "global.find-links='/one /two'\n"
    )
    assert for_uv(settings, {}) == {
        "UV_DEFAULT_INDEX": "https://user:secret@mirror/simple",
        "UV_INDEX": "https://a/simple https://b/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/one,/two",
    }


def test_certificates_proxies_hosts_and_patience_are_the_same_for_both():
    settings = {
        "cert": "/ca.pem",
        "client-cert": "/me.pem",
        "proxy": "http://proxy:3128",
        "trusted-host": "a\nb:8080",
        "constraint": "one.txt two.txt",
        "default-timeout": "180",
    }
    assert for_uv(settings, {}) == {
        "SSL_CERT_FILE": "/ca.pem",
        "SSL_CLIENT_CERT": "/me.pem",
        "HTTP_PROXY": "http://proxy:3128",
        "HTTPS_PROXY": "http://proxy:3128",
        "UV_INSECURE_HOST": "a b:8080",
        "UV_CONSTRAINT": "one.txt two.txt",
        "UV_HTTP_TIMEOUT": "180",
    }


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_authorities_that_pip_would_find_by_itself_are_handed_over(name):
    assert for_uv({}, {name: "/ca.pem"}) == {"SSL_CERT_FILE": "/ca.pem"}
    assert for_uv({"cert": "/pip.pem"}, {name: "/ca.pem"}) == {"SSL_CERT_FILE": "/pip.pem"}


@pytest.mark.parametrize(
    "environ",
    [{"UV_DEFAULT_INDEX": "https://mine"}, {"UV_INDEX_URL": "https://mine"}, {"UV_INDEX": "x"}],
)
def test_with_an_index_for_uv_none_of_pips_is_handed_over(environ):
    settings = {"index-url": "https://mirror", "extra-index-url": "https://a", "cert": "/ca.pem"}
    assert for_uv(settings, environ) == {"SSL_CERT_FILE": "/ca.pem"}
    assert for_uv(settings, {}, own_indexes=True) == {"SSL_CERT_FILE": "/ca.pem"}


def test_what_is_in_the_environment_already_stays():
    settings = {"proxy": "http://p", "cert": "/ca.pem", "timeout": "5", "index-url": "https://m"}
    environ = {"https_proxy": "http://q", "SSL_CERT_FILE": "/mine", "UV_HTTP_TIMEOUT": "7"}
    assert for_uv(settings, environ) == {
        "HTTP_PROXY": "http://p",
        "UV_DEFAULT_INDEX": "https://m",
    }
    assert for_uv(settings, {"UV_INDEX": ""})["UV_DEFAULT_INDEX"] == "https://m"


def test_without_settings_uv_does_what_it_does():
    assert for_uv({}, {"PATH": "/bin"}) == {}


def test_what_uv_would_do_differently_is_left_to_pip():
    settings = {"no-binary": ":all:", "pre": "true", "only-binary": "", "timeout": "5"}
    assert only_pip_can(settings) == ["no-binary", "pre"]


def test_variables_of_pip_are_its_settings():
    environ = {"PIP_EXTRA_INDEX_URL": "https://a", "PATH": "/bin"}
    assert of_environment(environ) == {"extra-index-url": "https://a"}


def test_a_password_is_left_out_of_what_is_shown():
    said = "ERROR: https://me:p@s/s,w@mirror/simple, http://token@b and https://c/x?token=secret it"
    assert without_password(said) == "ERROR: https://mirror/simple, http://b and https://c/x it"
    for secret in ("c/simple?token=se@cret", "me:se?cr@et@c/simple", "m@e:se?@cret@c"):
        assert without_password(f"see https://{secret} there") == "see https://... there"
