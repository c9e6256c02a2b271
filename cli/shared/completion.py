"""Shell completion of topics and groups.

A completion must never fail or wait, so no process is asked: the names come from the files of the
store, and without these there are none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .common import DEFAULT_STORE, STORE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click
    from click.shell_completion import CompletionItem


def topic_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The topics of the store that the command line names."""
    from ...store.config import topics
    from ...store.disk.paths import TOPICS

    return _offer(_quietly(lambda: topics.load(_path(context, TOPICS))[0].topics), incomplete)


def group_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The consumer groups of the store that the command line names."""
    from ...store.config import offsets

    def names() -> Iterable[str]:
        known, _ = offsets.load_groups(_path(context, offsets.GROUPS_FILE))
        progress, _ = offsets.load(_path(context, offsets.OFFSETS_FILE))
        return {*known, *(group for _, group in progress)}

    return _offer(_quietly(names), incomplete)


def _path(context: click.Context, name: str) -> str:
    """A file of `config/` of the store that the command line names."""
    from ...store.disk.paths import CONFIG

    store = context.params.get("store") or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    return f"{store}/{CONFIG}/{name}"


def _quietly(names: Any) -> Iterable[str]:
    """The names, or none: an error would break the user's command line."""
    from ...store.errors import StoreError

    try:
        found: Iterable[str] = names()
    except (StoreError, OSError):
        return ()
    return found


def _offer(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
