"""The output that a document shows, compared with the real one."""

from __future__ import annotations

import re
from typing import Final

#: What differs from run to run: ids, places in folders, numbers.
_VARIES: Final = (
    (re.compile(r"[0-9A-F]{32}"), "[0-9A-F]{32}"),
    (re.compile(r"/tmp/silomq-dev-\w+"), r"\\S+/silomq-dev-\\w+"),
    (re.compile(r"\d[\d,.]*"), r"\\d[\\d,.]*"),
)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def differs(shown: list[str], real: str) -> str:
    """Why the real output does not have the lines that are shown, in their order, or nothing. There
    may be lines between them: other blocks have sent messages too. `...` stands for any of these.
    """
    lines = iter(real.splitlines())
    for line in shown:
        if line != "..." and not any(re.fullmatch(_mask(line), one) for one in lines):
            return f"no line of this form: {line}\nin:\n{real}"
    return ""


def _mask(line: str) -> str:
    marks: list[str] = []

    def mark(pattern: str) -> str:
        marks.append(pattern.replace("\\\\", "\\"))
        return f"\0{chr(0xE000 + len(marks) - 1)}\0"

    for found, pattern in _VARIES:
        for text in found.findall(line):
            line = line.replace(text, mark(pattern), 1)
    text = re.sub(r"(?:\\ )+", r"\\s+", re.escape(line))
    for number, pattern in enumerate(marks):
        text = text.replace(re.escape(f"\0{chr(0xE000 + number)}\0"), pattern)
    return text
