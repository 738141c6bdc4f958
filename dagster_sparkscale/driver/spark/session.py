"""Creates the SparkContext, and lends it to a program that believes it creates its own."""

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dagster_sparkscale.driver.log import say

from .releases import LEAST, TooOld, minor, need, release_at

# As spark.redaction.regex has it by default.
_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)

# Would make pyspark a client of another Spark, as where Dagster itself is one.
_CONNECT = ("SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_REMOTE")


Properties = Callable[[Mapping[str, str]], Mapping[str, str]]


class CannotStart(Exception):
    """Spark could not be started; the text says why."""


def create_context(name: str, agent_url: str, more: Properties) -> Any:
    """The SparkContext, from the settings that PYSPARK_SUBMIT_ARGS names.

    Only a SparkContext and no SparkSession: the program's own builder makes that, and so the
    static settings it may make, such as spark.sql.extensions, have their effect.

    Args:
        name: of the application, where its settings have none.
        more: the system properties that the JVM needs besides, by Spark's settings.

    Raises:
        CannotStart: no JVM starts, or its Spark is too old.
    """
    for variable in _CONNECT:
        if os.environ.pop(variable, None) is not None:
            say(f"{variable} is not heeded: a driver has a Spark of its own")
    import pyspark

    refuse_if_too_old(pyspark.__version__, os.environ.get("SPARK_HOME"))
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError

    try:
        SparkContext._ensure_initialized()
    except (PySparkRuntimeError, OSError) as error:
        raise CannotStart(
            f"no JVM: {error} Its reason is above. Is Java installed, and JAVA_HOME right?"
        ) from None
    conf = SparkConf()
    # System properties, as spark-submit's are: any SparkConf of the program then has them too.
    properties = SparkContext._jvm.java.lang.System
    if conf.get("spark.app.name", "pyspark-shell") == "pyspark-shell":  # spark-submit's own
        properties.setProperty("spark.app.name", name)
    # The driver's output goes to a file, where progress bars are a nuisance. spark-submit turns
    # them on, so whether the stream's settings do cannot be told.
    properties.setProperty("spark.ui.showConsoleProgress", "false")
    properties.setProperty("spark.sparkscale.agent.url", agent_url)
    for setting, value in more(dict(conf.getAll())).items():
        properties.setProperty(setting, value)
    python = executors_python(conf.get("spark.master", ""), conf.get("spark.pyspark.python", None))
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    return SparkContext(conf=SparkConf())


def refuse_if_too_old(python: str, home: str | None) -> None:
    """
    Args:
        python: the version of the package pyspark.
        home: what SPARK_HOME says, where the jars are; None: they are the package's own.

    Raises:
        CannotStart: the Spark here is too old for this driver.
    """
    jars = release_at(Path(home)) if home else None
    for version, where in ((jars, f"in SPARK_HOME={home}"), (python, "by the package pyspark")):
        try:
            need("a stream", LEAST, version or "")
        except TooOld as error:
            raise CannotStart(f"{error}, {where}") from None
    if jars and minor(jars) != minor(python):
        say(f"pyspark is {python}, and SPARK_HOME={home} is Spark {jars}: they should be one")


def executors_python(
    master: str, configured: str | None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """What PYSPARK_PYTHON has to be; None: as it is, and where it is not set, executors take the
    `python3` that they find.

    Args:
        configured: `spark.pyspark.python`. spark-submit hands it on to the environment of a Python
            program that it starts, over what is there; this one was started without it.
    """
    if configured:
        return configured
    # Tasks of a local master run beside the driver; elsewhere its path may mean nothing.
    if master.startswith("local") and "PYSPARK_PYTHON" not in environment:
        return sys.executable
    return None


def lend_to_program() -> None:
    """Let the program's first `SparkContext(...)` take over the one that is active.

    A DStreams program commonly creates its context by the constructor, which raises while
    another is active. Later ones raise as they always do.
    """
    from pyspark import SparkContext

    original_init = SparkContext.__init__
    original_get = SparkContext.getOrCreate.__func__
    taken = False

    def take_over(
        self: Any,
        master: str | None = None,
        appName: str | None = None,
        sparkHome: str | None = None,
        pyFiles: Any = None,
        environment: dict[str, Any] | None = None,
        *args: Any,
        **options: Any,
    ) -> None:
        nonlocal taken
        active = SparkContext._active_spark_context
        if taken or active is None or active is self:
            original_init(self, master, appName, sparkHome, pyFiles, environment, *args, **options)
            return
        taken = True
        # conf is the eighth parameter: batchSize and serializer come between.
        conf = options.get("conf", args[2] if len(args) > 2 else None)
        asked = dict(conf.getAll()) if conf is not None else {}
        for key, value in (("spark.master", master), ("spark.app.name", appName)):
            if value is not None:
                asked[key] = value
        # Shared, not copied: stopping either stops both.
        self.__dict__ = active.__dict__
        SparkContext._active_spark_context = self
        self.environment.update(environment or {})
        for path in pyFiles or ():
            self.addPyFile(path)
        say("the program's SparkContext is the one that was created from the stream's settings")
        _adopt(self, asked)

    @classmethod  # type: ignore[misc]
    def get_or_create(cls: Any, conf: Any = None) -> Any:
        nonlocal taken
        context = SparkContext._active_spark_context
        if context is None or taken:
            return original_get(cls, conf)
        taken = True
        _adopt(context, dict(conf.getAll()) if conf is not None else {})
        return context

    SparkContext.__init__ = functools.wraps(original_init)(take_over)
    SparkContext.getOrCreate = get_or_create


def _adopt(context: Any, asked: dict[str, str]) -> None:
    """Have the context as the program asks for it, as far as it can still be had; tell the rest."""
    # A program may name the executors' Python in its environment before it makes its context.
    context.pythonExec = os.environ.get("PYSPARK_PYTHON", context.pythonExec)
    from pyspark import SparkConf

    # What the context itself goes by: the sessions made of it begin with its settings.
    settings = context._jsc.sc().conf()
    has = dict(context.getConf().getAll())
    # A SparkConf begins with what the JVM was started with, which nobody has asked for: Spark adds
    # to some of it when it makes the context, as to spark.driver.extraJavaOptions.
    begun_with = dict(SparkConf(_jvm=context._jvm).getAll())
    for key, value in sorted(asked.items()):
        if begun_with.get(key) == value:
            continue
        if key.startswith("spark.sql."):
            settings.set(key, value)
        elif has.get(key) != value:
            say(
                f"not applied, because the stream's settings win: {_shown(key, value)} "
                f"(it is {_shown(key, has[key]) if key in has else 'not set'})"
            )


def _shown(key: str, value: str) -> str:
    hidden = _SECRET.search(key) or _SECRET.search(value)
    return f"{key} = {'(hidden)' if hidden else value[:200]}"
