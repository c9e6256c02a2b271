"""The demo's last part: Spark reads the flights from the store, pyarrow from the CSV they came
from.

Both compute, for each carrier and each month, how many flights there were and how late they left.
The figures must be equal.
"""

from __future__ import annotations

import io
import json
import math
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.table import Table

from .processes import DemoFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GROUPS = ("carrier", "month")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EQUAL = 1e-9
_REPORT = "stats.html"


class Delays(msgspec.Struct, frozen=True):
    """The number of flights of a group, and the delay at departure (minutes) of those that left;
    None if none did.
    """

    flights: int
    mean: float | None
    p95: float | None

    def equals(self, other: Delays) -> bool:
        """Whether the figures are equal, but for the order in which floating-point numbers were
        added.
        """
        pairs = ((self.mean, other.mean), (self.p95, other.p95))
        return self.flights == other.flights and all(
            a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=_EQUAL))
            for a, b in pairs
        )


#: (kind of group, "carrier" or "month", and its value) -> figures.
Figures = dict[tuple[str, str], Delays]


def from_csv(folder: Path, total: int) -> Figures:
    """The figures of the first `total` flights of the data package."""
    import pyarrow.compute as pc
    from pyarrow import csv

    kinds = csv.ConvertOptions(
        include_columns=[*_GROUPS, "dep_delay"], null_values=["NA"], strings_can_be_null=True
    )
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        data = archive.read("flights.csv")
    table = csv.read_csv(io.BytesIO(data), convert_options=kinds).slice(0, total)
    found: Figures = {}
    for group in _GROUPS:
        for value in pc.unique(table[group]).to_pylist():
            delays = table.filter(pc.equal(table[group], value))["dep_delay"]
            p95 = pc.quantile(delays, 0.95, interpolation="linear")[0].as_py()
            found[group, str(value)] = Delays(len(delays), pc.mean(delays).as_py(), p95)
    return found


def messages(
    spark: SparkSession, store: Path, starts: Mapping[str, Mapping[int, int]], schema: str
) -> DataFrame:
    """The messages from `starts` (queue offsets by topic) on, with only the columns of `schema`."""
    offsets = {
        topic: {str(queue): offset for queue, offset in queues.items()}
        for topic, queues in starts.items()
    }
    return (
        spark.read.format("silomq")
        .schema(schema)
        .option("subscribe", ",".join(starts))
        .option("startingOffsets", json.dumps(offsets))
        .load(str(store))
    )


def from_store(bodies: DataFrame) -> Figures:
    """The figures of messages with flights in their bodies, computed by one Spark query."""
    from pyspark.sql import functions as f

    flight = f.from_json(
        f.col("body").cast("string"), "carrier string, month int, dep_delay int"
    ).alias("flight")
    flights = bodies.select(flight).select("flight.*")
    rows = (
        flights.groupingSets(
            [["carrier"], ["month"]],
            "carrier",
            "month",
        )
        .agg(
            f.count("*").alias("flights"),
            f.mean("dep_delay").alias("mean"),
            f.expr("percentile(dep_delay, 0.95)").alias("p95"),
        )
        .collect()
    )
    found: Figures = {}
    for row in rows:
        group = "carrier" if row["carrier"] is not None else "month"
        found[group, str(row[group])] = Delays(row["flights"], row["mean"], row["p95"])
    return found


def compare(console: Console, store: Figures, csv: Figures) -> None:
    """Prints both sets of figures side by side. Raises DemoFailed when they differ."""
    differ = []
    console.print("Delays at departure in minutes, by Spark from the store and from the CSV:")
    for group in _GROUPS:
        table = Table(group)
        for heading in ("flights", "mean", "p95", "CSV: flights", "mean", "p95", ""):
            table.add_column(heading, justify="right", no_wrap=True)
        keys = {key for key in store.keys() | csv.keys() if key[0] == group}
        for key in sorted(keys, key=lambda key: key[1].rjust(2)):
            ours, theirs = store.get(key), csv.get(key)
            equal = ours is not None and theirs is not None and ours.equals(theirs)
            if not equal:
                differ.append(f"{group} {key[1]}")
            label = key[1] if group == "carrier" else _MONTHS[int(key[1]) - 1]
            table.add_row(label, *_cells(ours), *_cells(theirs), "equal" if equal else "differ")
        console.print(table)
    if differ:
        raise DemoFailed(f"Spark over the store and the CSV differ for {', '.join(differ)}")


def _cells(delays: Delays | None) -> list[str]:
    if delays is None:
        return ["", "", ""]
    shown = ["none" if value is None else f"{value:.2f}" for value in (delays.mean, delays.p95)]
    return [f"{delays.flights:,}", *shown]


def write_report(
    spark: SparkSession, store: Path, starts: Mapping[str, Mapping[int, int]], path: Path
) -> None:
    """Writes the page that `silo spark stats --html` writes."""
    from ...pipeline.jobs import report, stats

    found = messages(spark, store, starts, stats.SCHEMA)
    tables = stats.collect(stats.stats(found, bucket="1 second"))
    path.write_text(report.render(tables, "Flights from New York, 2013"), encoding="utf-8")


def run(
    console: Console,
    store: Path,
    starts: Mapping[str, Mapping[int, int]],
    csv: Figures,
) -> None:
    """Runs this part in a Spark session of its own. Raises DemoFailed."""
    from ...pipeline.spark.java import NoJava
    from ...pipeline.spark.session import session

    began = time.monotonic()
    try:
        spark: Any = session("silomq demo", **{"spark.driver.memory": "512m"})
    except (ImportError, NoJava) as error:
        raise DemoFailed(f"{error} (--no-spark leaves this part out)") from error
    try:
        started = time.monotonic()
        figures = from_store(messages(spark, store, starts, "body binary"))
        read = time.monotonic()
        compare(console, figures, csv)
        page = store / _REPORT
        write_report(spark, store, starts, page)
        console.print(
            f"Spark read them from the store in {read - started:.1f} s "
            f"({started - began:.1f} s to start it); its figures are those of the CSV.",
            soft_wrap=True,
        )
        console.print(f"Counts, sizes and delays by topic and time: {page}", soft_wrap=True)
    finally:
        spark.stop()
