"""Each `silo` command that a document names exists, with the options that it gives."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from e2e.documents.blocks import blocks, documents, prose
from e2e.documents.expected import commands

from silomq.cli.commands import silo

_INLINE = re.compile(r"`(silo [^`]+)`")


def named(document: str) -> list[str]:
    """The command lines in a document: in its text, in blocks of all kinds."""
    found = _INLINE.findall(prose(document).replace("\\|", "|"))
    for block in blocks(document):
        if block.language == "console":
            found += [command for command, _ in commands(block.text)]
        elif block.language in {"sh", "text"}:
            found += block.text.replace("\\\n", " ").splitlines()
    parts = (part.strip() for line in found for part in re.split(r"&&|\|\s|\s&$|;", line))
    return [re.sub(r"^(?:sudo (?:-u \w+ )?)", "", part) for part in parts if "silo " in part]


def problem(line: str) -> str:
    """What is wrong with a command line, or nothing."""
    words = shlex.split(line.replace("'", "") if line.count("'") % 2 else line, comments=True)
    if not words or words[0] != "silo":
        return ""
    command: click.Command = silo
    context = click.Context(command, info_name="silo")
    for word in words[1:]:
        name = re.sub(r"\W+$", "", word.strip("[]"))
        if isinstance(command, click.Group) and not word.startswith(("-", "[")):
            # `silo query id|key` names several.
            found = None
            for one in reversed(name.split("|")):
                found = command.get_command(context, one)
                if found is None and command is not silo and command.invoke_without_command:
                    break
                if found is None:
                    return f"no command {one!r} in: {line}"
            if found is not None:
                command = found
        elif word.startswith(("-", "[-")) and not re.fullmatch(r"-\d*", name):
            known = {opt for item in command.params for opt in (*item.opts, *item.secondary_opts)}
            if name.partition("=")[0] not in {*known, "--help", "-h"}:
                return f"no option {name!r} in: {line}"
    return ""


@pytest.mark.parametrize("document", documents())
def test_the_commands_exist(document: str) -> None:
    found = [why for line in named(document) if (why := problem(line))]
    assert not found, "\n".join(found)


def test_a_wrong_command_is_found() -> None:
    assert len(named("README.md")) > 20
    assert problem("silo sent orders")
    assert problem("silo send orders --tag x")
    assert not problem("silo send orders --tags x")
