"""A Spark session with defaults for one machine, which removes all its files at the end.

Everything that Spark writes (logs, shuffles, warehouse) goes below one folder in the temporary
folder, which is removed when Python ends. The folder is locked while its session lives, so the next
session finds and removes the folders of killed processes.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from . import class_archive, java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

_PREFIX: Final = "silomq-spark-"
_LOCK: Final = "lock"
_PATIENCE_S: Final = 20.0
_LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
# Each failed task is reported to the driver, which raises; its traces here would say it again.
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
# What has the same level as the root says nothing about its level.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
#: Java's options for a session of some seconds. It starts a third faster, and ends before the
#: second compiler and parallel collecting threads would pay off.
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: A task that failed is tried again, so often in all. Spark's default everywhere but in local mode,
#: where a first failure ends the job: a worker that a busy machine held up ends it too.
_ATTEMPTS: Final = 4
#: How long a Python process waits for the JVM to answer, instead of Spark's 15 s.
_ANSWER_S: Final = 120
_LOCAL: Final = re.compile(r"local(?:\[\s*(\d+|\*)\s*\])?")
#: Folders of this process, with the descriptor that holds each one's lock.
_held: dict[Path, int] = {}


def session(app: str, *, master: str = "local[*]", **conf: object) -> SparkSession:
    """A session named `app` with the data source `silomq` registered.

    `conf` are Spark's settings, as `**{"spark.driver.memory": "2g"}`; they override the defaults
    here. A session that is active already is used, with `conf` set. A local `master` that does not
    say how often a task is tried (`local[N,ATTEMPTS]`) tries it four times. Raises `java.NoJava`,
    and ImportError without pyspark.
    """
    try:
        from pyspark.sql import SparkSession

        from ..source.source import SiloSource
    except ImportError as error:
        raise ImportError(
            "the pipeline needs pyspark, which is not installed: pip install 'silomq[spark]'"
        ) from error
    found = SparkSession.getActiveSession()
    settings = {name: _text(value) for name, value in conf.items()}
    if found is not None:
        for name, value in settings.items():
            found.conf.set(name, value)
    else:
        folder = _make_folder()
        builder = SparkSession.builder.appName(app).master(with_attempts(master))
        chosen = {**defaults(folder, master), **collector(settings, master), **settings}
        for name, value in chosen.items():
            builder = builder.config(name, value)
        with _environment(_variables(folder, master)):
            found = builder.getOrCreate()
    found.dataSource.register(SiloSource)
    return found


def defaults(folder: Path, master: str) -> dict[str, str]:
    """The settings that differ from Spark's own defaults; Spark's files go below `folder`."""
    found = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.python.authenticate.socketTimeout": f"{_ANSWER_S}s",
        "spark.driver.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
    }
    if _is_local(master):
        found |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(folder),
            # As many shuffle partitions as cores are enough on one machine.
            "spark.sql.shuffle.partitions": str(max(2, len(os.sched_getaffinity(0)))),
        }
    return found


def with_attempts(master: str) -> str:
    """A local master that tries each task several times; any other one as it is."""
    found = _LOCAL.fullmatch(master)
    return f"local[{found[1] or 1},{_ATTEMPTS}]" if found else master


def collector(settings: Mapping[str, str], master: str) -> dict[str, str]:
    """The garbage collector's setting; none if one is set already, because Java refuses two. On few
    cores G1 makes rows a fifth slower than the parallel collector, whose longer pauses do not
    matter here.
    """
    places = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
    given = [os.environ.get(name, "") for name in places]
    given.append(settings.get("spark.driver.extraJavaOptions", ""))
    if not _is_local(master) or re.search(r"-XX:\+Use\w+GC\b", " ".join(given)):
        return {}
    return {"spark.driver.defaultJavaOptions": "-XX:+UseParallelGC"}


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _variables(folder: Path, master: str) -> dict[str, str]:
    """The environment variables that Spark starts with, besides this process's own."""
    conf = class_archive.CONF if class_archive.CONF.is_dir() else folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING, encoding="utf-8")
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    java_options = [f'"-Dlog4j2.configurationFile={logging}"', *class_archive.options(), given]
    # The folder that the package is in, for workers whose search path differs from this process's.
    place = str(Path(__file__).resolve().parents[3])
    found = {
        "JAVA_HOME": str(java.find(folder)),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_SUBMIT_OPTS": " ".join(java_options),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [place, os.environ.get("PYTHONPATH")])),
        # Workers must not import from the folder in which a job was started.
        "PYTHONSAFEPATH": "1",
    }
    if _is_local(master):
        found["SPARK_LOCAL_IP"] = "127.0.0.1"
    if "SPARK_CONF_DIR" in os.environ and not _is_local(master):
        del found["SPARK_CONF_DIR"]  # a cluster's own says how to reach it
    return found


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables while Spark starts."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _make_folder() -> Path:
    """Makes a locked folder for this process, and removes those of dead processes."""
    top = Path(tempfile.gettempdir())
    for old in top.glob(f"{_PREFIX}*"):
        _remove_if_dead(old)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=top))
    fd = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    if not _held:
        atexit.register(_clean_up)
    _held[folder] = fd
    return folder


def _remove_if_dead(folder: Path) -> None:
    """Removes a session's folder if no process holds its lock."""
    if folder in _held:
        return
    try:
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # another user's, or one that is just being made
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(fd)


def stop(patience_s: float = _PATIENCE_S) -> None:
    """Stops Spark and waits for its JVM, which is killed after `patience_s` seconds."""
    from pyspark import SparkContext

    context: Any = SparkContext
    if context._active_spark_context is not None:  # noqa: SLF001  PySpark has no public way
        context._active_spark_context.stop()  # noqa: SLF001
    gateway = context._gateway  # noqa: SLF001
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is None or process.stdin.closed:
        return
    process.stdin.close()  # the JVM ends when it is closed
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _clean_up() -> None:
    """Stops Spark and removes its files, at the end of Python."""
    stop()
    for folder, fd in _held.items():
        shutil.rmtree(folder, ignore_errors=True)
        os.close(fd)
    _held.clear()
