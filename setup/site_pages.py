"""The pages of the site that are made of source files: one for each file that a document links to,
and the reference of the public names.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from docstring_tables import as_markdown

if TYPE_CHECKING:
    from pathlib import Path

#: Pages of the API: title, what stands above the names, and the names.
API: Final = {
    "api/producing.md": (
        "Producing",
        "A program sends with a `Producer`.",
        ("Producer", "Message", "SendResult", "SendFuture", "PutMessageStatus"),
    ),
    "api/consuming.md": (
        "Consuming",
        (
            "A `Consumer` reads queues from an offset that it chooses. A `GroupConsumer` shares "
            "the queues with the other members of its group, and the store keeps "
            "the group's progress."
        ),
        ("Consumer", "GroupConsumer", "Listener", "Sql", "MessageView", "ColumnName"),
    ),
    "api/transactions.md": (
        "Transactions",
        "A message that is delivered only if it is committed.",
        ("TransactionProducer", "Transaction", "CheckedMessage"),
    ),
    "api/request-reply.md": (
        "Request and reply",
        "A program asks, and waits for the reply of whoever consumes its request.",
        ("RequestProducer", "ReplyFuture"),
    ),
    "api/looking-up.md": (
        "Looking up",
        "A `StoreReader` finds single messages, as RocketMQ's queries do.",
        ("StoreReader", "GetMessageResult", "GetMessageStatus", "MessageFilter"),
    ),
    "api/administration.md": (
        "Administration",
        "Topics, groups and offsets of a running store.",
        (
            *("Admin", "TopicInfo", "TopicLimits"),
            *("GroupInfo", "GroupState", "MemberInfo", "QueueProgress"),
        ),
    ),
    "api/errors.md": (
        "Errors",
        "Every error is a `StoreError`.",
        (
            *("StoreError", "SendTimeout", "RequestTimeout", "StoreClosed", "SessionLost"),
            *("ForkedChild", "NotHandedOut", "TopicDeleted", "TooManyOpenFiles", "IllegalMessage"),
            *("IllegalArgument", "IllegalType", "IllegalUse", "IllegalQuery", "FilterError"),
            *("MessageNotFound", "BadBody", "Corrupt", "CorruptRange", "UnsupportedFeature"),
        ),
    ),
}
#: How the text of a file is coloured.
_LANGUAGES: Final = {
    ".py": "python",
    ".pyi": "python",
    ".pyx": "cython",
    ".h": "c",
    ".toml": "toml",
}


class IncompleteReference(ValueError):
    """A public name is on no page of the API, or a page has a name that is not public."""


def api_page(root: Path, page: str) -> str:
    """A page of the API, in which mkdocstrings puts the docstrings. Raises IncompleteReference."""
    public, listed = _public(root), {name for _, _, names in API.values() for name in names}
    if public != listed:
        raise IncompleteReference(
            f"setup/site_pages.py must list the public names: {sorted(public ^ listed)}"
        )
    title, text, names = API[page]
    return "\n\n".join((f"# {title}", text, *(f"::: silomq.{name}" for name in names), ""))


def source_page(root: Path, path: str) -> str:
    """The page of a file: a document as it is, else the module's docstring and the file's text."""
    text = (root / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    parts = [f"# `{path}`"]
    suffix = path[path.rfind(".") :]
    if suffix == ".py":
        tree = ast.parse(text)
        if docstring := ast.get_docstring(tree):
            parts.append(as_markdown(docstring, heading=2))
            text = "\n".join(text.splitlines()[tree.body[0].end_lineno :]).strip("\n")
    if text:
        parts += ["## The file", f"````{_LANGUAGES.get(suffix, 'text')}\n{text}\n````"]
    return "\n\n".join((*parts, ""))


def _public(root: Path) -> set[str]:
    """The names in `silomq.__all__`."""
    tree = ast.parse((root / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise IncompleteReference("__init__.py has no list __all__")
