"""How private parts of Spark are used, so that a release that lacks one loses that feature alone.

What a release has elsewhere than the others is looked up in here, too.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from dagster_sparkscale.driver.log import say

from .features import Feature
from .releases import TESTED, minor

T = TypeVar("T")

# What Java throws where a class or a member is not there, or not to be got at.
_ABSENT = {
    "java.lang.AbstractMethodError",
    "java.lang.ClassNotFoundException",
    "java.lang.IllegalAccessError",
    "java.lang.IllegalAccessException",
    "java.lang.IncompatibleClassChangeError",
    "java.lang.NoClassDefFoundError",
    "java.lang.NoSuchFieldError",
    "java.lang.NoSuchFieldException",
    "java.lang.NoSuchMethodError",
    "java.lang.NoSuchMethodException",
    "java.lang.reflect.InaccessibleObjectException",
}


class PrivateSpark:
    """Remembers the features that this Spark turned out to lack. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._missing: set[Feature] = set()

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of those features."""
        with self._lock:
            return tuple(sorted(feature.name for feature in self._missing))

    @property
    def lacks(self) -> tuple[str, ...]:
        """The ids of those features."""
        with self._lock:
            return tuple(sorted(feature.id for feature in self._missing))

    def has(self, feature: Feature) -> bool:
        """Whether it has not turned out to be missing."""
        with self._lock:
            return feature not in self._missing

    def use(self, feature: Feature, call: Callable[[], T], otherwise: T) -> T:
        """What `call` returns; `otherwise` if this Spark lacks what it needs, which is said once,
        and not tried again: Spark stays the same while the driver lives.

        Raises:
            Exception: what `call` raises for another reason.
        """
        if not self.has(feature):
            return otherwise
        try:
            return call()
        except Exception as error:
            if not is_absent(error):
                raise
            with self._lock:
                first = feature not in self._missing
                self._missing.add(feature)
            if first:
                say(
                    f"this Spark lacks {feature.name}: {feature.without}. It would be in "
                    f"{' and '.join(feature.uses)}: {str(error).splitlines()[0][:200]}"
                )
            return otherwise


def is_absent(error: Exception) -> bool:
    """Whether it failed because there is no such class or member, here or in the JVM."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    if isinstance(error, Py4JJavaError):
        return error.java_exception.getClass().getName() in _ABSENT
    if isinstance(error, Py4JNetworkError):
        return False
    if isinstance(error, Py4JError):
        return "does not exist" in str(error)
    if isinstance(error, ImportError):
        return True
    # py4j takes an unknown class for a package.
    return isinstance(error, TypeError) and "JavaPackage" in str(error)


def of_streaming(jvm: Any, package: str, name: str) -> Any:
    """The class `name` that is in a `package` of `org.apache.spark.sql.execution.streaming`, and
    before 4.1 was there itself.

    Raises:
        ImportError: neither place of this Spark has it.
    """
    from py4j.java_gateway import JavaPackage  # what py4j takes an unknown class for

    streaming = jvm.org.apache.spark.sql.execution.streaming
    for place in (getattr(streaming, package), streaming):
        found = getattr(place, name)
        if not isinstance(found, JavaPackage):
            return found
    raise ImportError(f"this Spark has no {name} in org.apache.spark.sql.execution.streaming")


def check_version(context: Any) -> str:
    """The release of Spark that runs; says so if it is none that this was tested with."""
    version = str(context.version)
    if minor(version) not in TESTED:
        say(f"Spark {version}: tested with {', '.join(TESTED)} only; what it lacks will be told")
    return version
