"""The environment variables that drivers and workers inherit from Dagster. Pure.

What must not change: only what is listed here, or named by the user, is handed on. Dagster's
environment holds the password of its database and other secrets of its host, and a driver
runs other people's code.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

_SYSTEM = (
    *("HOME", "HOSTNAME", "LANG", "LANGUAGE", "LC_*", "LOGNAME", "PATH", "SHELL", "USER"),
    *("TEMP", "TMP", "TMPDIR", "TZ", "TZDIR", "XDG_*_HOME"),
    *("DYLD_*", "LD_LIBRARY_PATH", "LD_PRELOAD", "MALLOC_*", "*_NUM_THREADS"),
    *("CUDA_*", "GLIBC_TUNABLES", "KMP_*", "MKL_*", "NVIDIA_*", "OMP_*"),
    "OBJC_DISABLE_INITIALIZE_FORK_SAFETY",  # without it Python workers crash on macOS
)
_LANGUAGES = (
    *("CONDA_*", "PYENV_*", "PYTHON*", "VIRTUAL_ENV"),
    *("JAVA_*", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
)
_SPARK = (
    *("PYSPARK_*", "SPARK_*"),
    *("ARROW_*", "PYARROW_*", "HADOOP_*", "HDFS_*", "HIVE_CONF_DIR", "KRB5*", "YARN_CONF_DIR"),
)
_CLOUDS = ("AWS_*", "AZURE_*", "CLOUDSDK_*", "GCE_*", "GOOGLE_*", "IDENTITY_*")
_NETWORK = (
    *("CURL_CA_BUNDLE", "NIX_SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "SSL_CERT_*"),
    *("ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("all_proxy", "ftp_proxy", "http_proxy", "https_proxy", "no_proxy"),
)
NEEDED = (*_SYSTEM, *_LANGUAGES, *_SPARK, *_CLOUDS, *_NETWORK)
"""Names and patterns of what the system, Python, Java, Spark, Hadoop and clouds go by."""

# Would turn the driver into a client of another Spark, or into part of another application.
_OF_ANOTHER_SPARK = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_LOCAL_REMOTE",
    "SPARK_REMOTE",
    "SPARK_TESTING",
    "_SPARK_AUTH_SECRET",
)
# The workers' executors have these from the driver, or from the worker itself.
_OF_A_DRIVER = ("PYSPARK*", "PYTHONPATH", "SPARK*")


def for_driver(environ: Mapping[str, str], named: Iterable[str] = ()) -> dict[str, str]:
    """What a driver is given of `environ`.

    Args:
        named: by the user, besides what is needed: names, or patterns as of a shell's files.
    """
    return _without(_with(environ, (*NEEDED, *named)), _OF_ANOTHER_SPARK)


def for_worker(environ: Mapping[str, str], named: Iterable[str] = ()) -> dict[str, str]:
    """What a worker of an embedded cluster, and so its executors, are given of `environ`: the same,
    but for what speaks of another Spark or of the process that starts the worker."""
    return _without(for_driver(environ, named), _OF_A_DRIVER)


def _with(environ: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    wanted = tuple(patterns)
    return {name: value for name, value in environ.items() if _fits(name, wanted)}


def _without(environ: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    unwanted = tuple(patterns)
    return {name: value for name, value in environ.items() if not _fits(name, unwanted)}


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
