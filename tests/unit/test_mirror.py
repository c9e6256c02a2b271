"""The unit tests mirror the package: a room's tests lie in the room of the same name, and a test
file is named for the module that it tests, or for the room if it tests all of its modules.
"""

from __future__ import annotations

from pathlib import Path

UNIT = Path(__file__).parent
PACKAGE = UNIT.parents[1]
#: What a test file may be named for: a module, compiled or not, or another file that is shipped.
SUFFIXES = (".py", ".pyx", ".h", ".service")
#: Tests of the package as a whole.
OF_THE_WHOLE = {
    "test_headers.py",
    "test_mirror.py",
    "test_public_names.py",
    "test_typing.py",
    "typed_calls.py",
}


def names_in(folder: Path) -> set[str]:
    """What the test files of a folder may be named for."""
    files = [*(PACKAGE / folder).iterdir()]
    modules = {file.stem.lstrip("_") for file in files if file.suffix in SUFFIXES}
    return modules | {file.name for file in files if (file / "__init__.py").is_file()}


def test_every_folder_is_a_folder_of_the_package() -> None:
    folders = {file.parent.relative_to(UNIT) for file in UNIT.rglob("*.py")} - {Path()}
    assert [str(folder) for folder in folders if not (PACKAGE / folder).is_dir()] == []


def test_every_file_is_named_for_what_it_tests() -> None:
    strangers = []
    for file in UNIT.rglob("*.py"):
        if file.name in OF_THE_WHOLE or file.name == "conftest.py":
            continue
        subject = file.stem.removeprefix("test_")
        names = names_in(file.parent.relative_to(UNIT))
        # Several files may test one module: test_apply.py, test_apply_cleaned.py.
        if not any(subject == name or subject.startswith(f"{name}_") for name in names):
            strangers.append(str(file.relative_to(UNIT)))
    assert sorted(strangers) == []
