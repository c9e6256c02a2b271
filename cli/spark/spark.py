"""`silo spark ...`: bulk jobs over any number of stores, on this machine or on a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ..offline.repair import lock_store
from ..offline.tooling import settings_of
from ..shared.common import put_json, put_line, say
from ..shared.outcome import Exit
from .common import (
    job,
    job_options,
    located,
    parquet_option,
    plain,
    print_table,
    real_paths,
    store_argument,
    stores_argument,
)

_EPILOG = """\b
Examples:
  silo spark stats ./store --html stats.html
  silo spark audit ./store-a ./store-b --parquet findings
  silo spark export ./store exported --compact
  silo spark archive ./store s3://bucket/store-a
\b
The jobs need Spark and a Java, 17 or newer: pip install 'silomq[spark]' brings both.
With --master they run on a cluster, whose machines must see the same folders.
"""


@click.group(epilog=_EPILOG, short_help="Bulk jobs on Spark: stats, audit, rebuild, export, ...")
def spark() -> None:
    """Bulk jobs on Spark, over one store or many."""


@spark.command(short_help="Counts, sizes, rates and delays by topic, tag and time.")
@stores_argument
@click.option("--bucket", default="1 hour", show_default=True, help="Length of a time bucket.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Keys.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a report.")
@parquet_option
@job_options
def stats(
    stores: tuple[str, ...],
    *,
    bucket: str,
    top: int,
    html: Path | None,
    parquet: str | None,
    config_file: Path | None,
    overrides: tuple[str, ...],
    conf: tuple[str, ...],
    master: str,
    as_json: bool,
) -> None:
    """Statistics of the messages in STORES, which may run."""
    settings_of(config_file, overrides)
    with job("stats", master, conf) as active:
        from ...pipeline.jobs import report
        from ...pipeline.jobs import stats as task
        from ...pipeline.jobs.reading import messages

        df = messages(active, real_paths(stores), task.SCHEMA)
        tables = task.stats(df, bucket=bucket, top=top)
        rows = task.collect(tables)
        if parquet:
            task.write_parquet(tables, os.path.abspath(parquet))
    if html:
        html.write_text(report.render(rows, ", ".join(stores)), encoding="utf-8")
        say(f"silo: the report is in {html}")
    if as_json:
        put_json(plain(rows), indent=2)
        return
    for name in ("topics", "keys"):
        print_table(name, rows[name])


@spark.command(short_help="Check all messages and files of stopped stores.")
@stores_argument
@parquet_option
@job_options
def audit(
    stores: tuple[str, ...],
    *,
    parquet: str | None,
    config_file: Path | None,
    overrides: tuple[str, ...],
    conf: tuple[str, ...],
    master: str,
    as_json: bool,
) -> int:
    """Check STORES, which must be stopped: CRCs, gaps and duplicates, queues and index against the
    log, consumer groups against queues. Exit status 1 if anything is wrong.
    """
    settings_of(config_file, overrides)
    with job("audit", master, conf) as active:
        from ...pipeline.jobs import audit as task
        from ...pipeline.jobs.reading import messages

        settings = {path: settings_of(config_file, overrides, path) for path in real_paths(stores)}
        df = messages(active, list(settings), task.SCHEMA, onCorrupt="skip", includeDelayed=True)
        found = task.audit(active, df, settings)
        if parquet:
            task.write_parquet(active, found, os.path.abspath(parquet))
    if as_json:
        put_json(
            {
                "sound": found.sound,
                "findings": found.findings,
                "unnamed": found.unnamed,
                "queues": found.queues,
                "progress": found.progress,
                "counts": dict(found.counts),
                "notes": found.notes,
            },
            indent=2,
        )
    else:
        for row in found.findings:
            put_line(f"{row['file']}:{row['offset']}: {row['what']}")
        print_table("consumer groups", found.progress)
    for note in found.notes:
        say(f"silo: {note}")
    counted = ", ".join(f"{count:,} {what}" for what, count in sorted(found.counts.items()))
    outcome = "sound" if found.sound else f"{len(found.findings) + found.unnamed:,} findings"
    say(f"{', '.join(stores)}: {outcome} ({counted or 'empty'})")
    return Exit.OK if found.sound else Exit.FAILED


@spark.command(short_help="Rebuild consume queues and index from the log.")
@store_argument
@click.option("--into", type=click.Path(), metavar="DIR", help="Build here, not in place.")
@job_options
def rebuild(
    store: str,
    *,
    into: str | None,
    config_file: Path | None,
    overrides: tuple[str, ...],
    conf: tuple[str, ...],
    master: str,
    as_json: bool,
) -> None:
    """Rebuild the consume queues and the index of STORE, which must be stopped, from its commit
    log. The old files are moved to STORE/recovery.
    """
    settings = settings_of(config_file, overrides, store)
    path = os.path.abspath(store)
    with job("rebuild", master, conf) as active:
        from dataclasses import asdict

        from ...pipeline.jobs.rebuild import rebuild as task
        from ...tools.raw.files import StoreFiles

        StoreFiles(path, settings)  # so that a wrong folder gets no lock file
        lock = lock_store(Path(path)) if into is None else None
        try:
            done = asdict(task(active, path, settings, os.path.abspath(into) if into else None))
        finally:
            if lock is not None:
                os.close(lock)
    gaps = done.pop("gaps")
    if as_json:
        put_json({**done, "gaps": gaps}, indent=2)
    else:
        print_table("rebuilt", [done])
    for topic, queue_id, missing in gaps:
        say(f"silo: {topic}/{queue_id}: {missing} entries are missing between first and last")


@spark.command(name="export", short_help="Write messages to Parquet, by topic and day.")
@stores_argument
@click.argument("target", type=click.Path())
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated."
)
@click.option("--compact", is_flag=True, help="Only the last of messages with the same keys.")
@click.option("--append", is_flag=True, help="Add to what TARGET holds.")
@click.option("--overwrite", is_flag=True, help="Replace what TARGET holds.")
@job_options
def export_messages(
    stores: tuple[str, ...],
    target: str,
    *,
    topics: tuple[str, ...],
    compact: bool,
    append: bool,
    overwrite: bool,
    config_file: Path | None,
    overrides: tuple[str, ...],
    conf: tuple[str, ...],
    master: str,
    as_json: bool,
) -> None:
    """Write the messages of STORES, which may run, to Parquet files below TARGET."""
    if append and overwrite:
        raise click.UsageError("--append and --overwrite exclude each other")
    settings_of(config_file, overrides)
    mode = "append" if append else "overwrite" if overwrite else "errorifexists"
    with job("export", master, conf) as active:
        from ...pipeline.jobs import transfer
        from ...pipeline.jobs.reading import messages

        options = {"subscribe": ",".join(topics)} if topics else {}
        df = messages(active, real_paths(stores), **options)
        rows = transfer.export(df, located(target), compact=compact, mode=mode)
    _tell(as_json, "exported", rows)


@spark.command(name="import", short_help="Send exported messages to a running store.")
@click.argument("source", type=click.Path())
@store_argument
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated."
)
@click.option("--again", is_flag=True, help="Also send messages whose ids the store has already.")
@job_options
def import_messages(
    source: str,
    store: str,
    *,
    topics: tuple[str, ...],
    again: bool,
    config_file: Path | None,
    overrides: tuple[str, ...],
    conf: tuple[str, ...],
    master: str,
    as_json: bool,
) -> None:
    """Send the messages exported to SOURCE to STORE, which must run on this machine.

    Queue, body, time of birth and properties stay; offsets and the time of storing are new.
    Messages that the store has already are left out, so an interrupted import can be repeated.
    """
    settings_of(config_file, overrides)
    with job("import", master, conf) as active:
        from ...pipeline.jobs import transfer
        from ...pipeline.jobs.reading import messages

        df = transfer.read_export(active, located(source))
        if topics:
            df = df.where(df.topic.isin(list(topics)))
        (path,) = real_paths((store,))
        present = None if again else messages(active, [path], transfer.PRESENT)
        done = transfer.import_(df, path, present=present)
    _tell(as_json, "imported", done.queues, {"skipped": done.skipped})
    for why, count in done.skipped.items():
        say(f"silo: {count:,} messages left out: {why}")


@spark.command(short_help="Copy full log files to another place.")
@store_argument
@click.argument("url")
@click.option("--verify", is_flag=True, help="Read all of the archive and check it.")
@job_options
def archive(
    store: str,
    url: str,
    *,
    verify: bool,
    config_file: Path | None,
    overrides: tuple[str, ...],
    conf: tuple[str, ...],
    master: str,
    as_json: bool,
) -> int:
    """Copy the full commit-log files of STORE, which may run, to the archive at URL: a folder, or a
    URL that pyarrow or fsspec know (s3://, gs://, hdfs://...). Files that are there already are
    left alone.
    """
    settings = settings_of(config_file, overrides, store)
    wrong: list[tuple[str, str]] = []
    with job("archive", master, conf) as active:
        from ...pipeline.jobs import archive as task

        done = task.archive(active, store, located(url), settings)
        if verify:
            wrong = task.verify(active, located(url))
    copied = [entry for entry in done.manifest["files"] if entry["name"] in done.copied]
    _tell(as_json, "archived", copied, {"wrong": [list(pair) for pair in wrong]})
    for name, what in wrong:
        say(f"silo: {url}/{name}: {what}")
    say(f"silo: {len(done.copied)} files copied, {len(done.present)} were there already")
    return Exit.CORRUPT if wrong else Exit.OK


@spark.command(short_help="Copy an archive back into a store's folder.")
@click.argument("url")
@store_argument
@click.option("--first", type=click.IntRange(min=0), default=0, help="From this log offset on.")
@click.option("--end", type=click.IntRange(min=0), help="Up to this log offset.")
@job_options
def restore(
    url: str,
    store: str,
    *,
    first: int,
    end: int | None,
    config_file: Path | None,
    overrides: tuple[str, ...],
    conf: tuple[str, ...],
    master: str,
    as_json: bool,
) -> None:
    """Copy the log files of the archive at URL into the folder STORE, each checked by its CRC.

    `silo spark rebuild` then makes queues and index, and the store can be started.
    """
    settings_of(config_file, overrides)
    with job("restore", master, conf) as active:
        from ...pipeline.jobs import archive as task

        done = task.restore(active, located(url), store, first=first, end=end)
    _tell(as_json, "restored", [e for e in done.manifest["files"] if e["name"] in done.copied])


def _tell(
    as_json: bool,  # noqa: FBT001  the commands' own flag
    title: str,
    rows: list[dict[str, Any]],
    more: dict[str, Any] | None = None,
) -> None:
    """Prints the outcome, as JSON or as a table."""
    if as_json:
        put_json({**plain({title: rows}), **(more or {})}, indent=2)
    else:
        print_table(title, rows)
