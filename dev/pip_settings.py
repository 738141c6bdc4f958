"""What somebody has set for pip, in uv's words: a mirror and its certificate must serve both.

uv reads neither pip.conf nor PIP_*. Here is no input and no output: the settings are data. URLs may
carry a password, so they travel in the environment, never in arguments, which others can read.
"""

import ast
import re
from collections.abc import Mapping

PIP_ONLY = frozenset(
    {
        "config-settings",
        "keyring-provider",
        "no-binary",
        "no-index",
        "only-binary",
        "pre",
        "prefer-binary",
        "require-hashes",
        "uploaded-prior-to",
    }
)
"""Settings that change what is installed, or from where, and are not handed over here."""

UV_INDEXES = frozenset(
    {"UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"}
)
_SECTIONS = ("global", "install", ":env:")
"""As pip has them: the later ones win."""


def parse(listing: str) -> dict[str, str]:
    """The settings in force for `pip install`, of what `pip config list` prints."""
    settings: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        if section in settings and value:
            settings[section][name] = _value(value)
    return {name: value for section in _SECTIONS for name, value in settings[section].items()}


def _value(shown: str) -> str:
    """What pip shows as Python would; as it stands, should that change."""
    try:
        return str(ast.literal_eval(shown))
    except (ValueError, SyntaxError):
        return shown


def of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of PIP_* alone, where there is no pip to be asked."""
    return {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("PIP_")
    }


def only_pip_can(settings: Mapping[str, str]) -> list[str]:
    """Those of the settings for which the installation is left to pip."""
    return sorted(name for name in PIP_ONLY & settings.keys() if settings[name])


def for_uv(
    settings: Mapping[str, str], environ: Mapping[str, str], *, own_indexes: bool = False
) -> dict[str, str]:
    """Variables that make uv do what pip would; none that `environ` has for uv already.

    Args:
        own_indexes: a uv.toml names indexes, which variables would override.
    """
    words: dict[str, str] = {}
    if not own_indexes and not any(environ.get(name) for name in UV_INDEXES):
        words |= _indexes(settings)
    ca = settings.get("cert") or environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    proxy = settings.get("proxy")
    timeout = settings.get("timeout") or settings.get("default-timeout")
    words |= {
        "SSL_CERT_FILE": ca or "",
        "SSL_CLIENT_CERT": settings.get("client-cert", ""),
        "UV_INSECURE_HOST": " ".join(settings.get("trusted-host", "").split()),
        "UV_CONSTRAINT": " ".join(settings.get("constraint", "").split()),
        "UV_HTTP_TIMEOUT": timeout.partition(".")[0] if timeout else "",
        "HTTP_PROXY": proxy or "",
        "HTTPS_PROXY": proxy or "",
    }
    taken = {name.upper() for name, value in environ.items() if value}
    return {name: value for name, value in words.items() if value and name not in taken}


def _indexes(settings: Mapping[str, str]) -> dict[str, str]:
    extra = settings.get("extra-index-url", "").split()
    return {
        "UV_DEFAULT_INDEX": settings.get("index-url", ""),
        "UV_INDEX": " ".join(extra),
        # pip takes the best of all indexes; uv, left to itself, all versions of the first.
        "UV_INDEX_STRATEGY": "unsafe-best-match" if extra else "",
        "UV_FIND_LINKS": ",".join(settings.get("find-links", "").split()),
    }


def without_password(text: str) -> str:
    """`text` with what may be secret in any URL in it left out: what stands before an @, and the
    query. Of one where it cannot be told where a password ends, nothing is left."""
    return re.sub(r"(?<=://)\S*", _shown, text)


def _shown(url: re.Match[str]) -> str:
    before, _, query = url[0].partition("?")
    return "..." if "@" in query else before.rpartition("@")[2]
