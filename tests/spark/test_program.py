"""The data source in a program that has never heard of us."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.cleaned_stores import fill
from support.small_settings import BY_HAND

pytest.importorskip("pyspark")

from support.harness import StoreProcess

from silomq.pipeline.spark import class_archive
from silomq.pipeline.spark.session import QUICK

if TYPE_CHECKING:
    from pathlib import Path

#: PySpark as it comes: no session of ours, pushdown off, the source found by its module's name.
PLAIN = """
import os, sys, tempfile
from pathlib import Path
from silomq.pipeline.spark import java
os.environ["JAVA_HOME"] = str(java.find(Path(tempfile.mkdtemp())))
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.read.format("silomq").load(sys.argv[1]).where("topic = 'alpha'").count())
spark.stop()
"""


def test_it_is_found_without_registration(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **BY_HAND) as store:
        fill(store, 0, 40)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PLAIN, str(store.path)],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path),
            # These make it start sooner, and nothing else.
            "SPARK_SUBMIT_OPTS": " ".join([QUICK, *class_archive.options()]),
            "SPARK_CONF_DIR": str(class_archive.CONF),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.split()[-1] == "40", done.stderr
