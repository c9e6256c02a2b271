"""How a client connects to the socket of a store, and what it says when it cannot."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..shm.control import LayoutError
from ..store.errors import StoreError, TooManyOpenFiles
from .errors import StoreClosed

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from ..shm.control import Control
    from ..shm.metrics import Metrics

_AGAIN_S: Final = 0.005


def check_version(memory: Control | Metrics, shown: str) -> None:
    """Raises StoreError if shared memory of the store `shown` is not of this version."""
    try:
        memory.check()
    except LayoutError as error:
        raise StoreError(f"the store at {shown} is of another version: {error}") from error


def enter(end: socket.socket, path: str, timeout_s: float) -> None:
    """Connects. While the store's queue of new connections is full, the kernel does not wait but
    answers EAGAIN: then this tries again. Raises TimeoutError, OSError.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            end.connect(path)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise TimeoutError from error
            time.sleep(_AGAIN_S)
        else:
            return


@contextlib.contextmanager
def explained(path: str, shown: str, timeout_s: float) -> Iterator[None]:
    """Raises StoreClosed with a sentence for an error of connecting to the store in folder `path`.
    TooManyOpenFiles stays what it is.
    """
    try:
        yield
    except NotADirectoryError as error:
        raise StoreClosed(
            f"cannot connect to {shown}: it is a file, or lies in one; give the folder of a store"
        ) from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        what = "no store runs there" if Path(path).is_dir() else "there is no such folder"
        raise StoreClosed(
            f"cannot connect to {shown}: {what}; start it with: silo serve --store {shown}"
        ) from error
    except TimeoutError as error:
        raise StoreClosed(
            f"{shown}: the store has accepted no connection for {timeout_s:.1f} s; is it "
            "frozen, or do very many clients connect at once? Try again"
        ) from error
    except PermissionError as error:
        raise StoreClosed(
            f"cannot connect to {shown}: user {os.geteuid()} may not; join the group of its socket"
        ) from error
    except TooManyOpenFiles:
        raise
    except OSError as error:  # such as a path that is too long, or has a loop
        raise StoreClosed(f"cannot connect to {shown}: {error.strerror}") from error
