"""The worker of a store in a JVM: a process that hands the protocol's lines to a thread there.

The words are the port of the JVM. What comes on standard input goes to the connection, and what
comes from the connection goes to standard output. The end of the input is handed over too.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

_PIECE = 1 << 16
_FAILED = b"error: "


def _hand_over(connection: socket.socket) -> None:
    try:
        while data := os.read(0, _PIECE):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError as error:
        print(f"the JVM's connection: {error}", file=sys.stderr)


def main() -> int:
    """Relays until the JVM closes the connection. The status says whether the work was done."""
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        threading.Thread(target=_hand_over, args=(connection,), daemon=True).start()
        with connection.makefile("rb") as lines:
            for line in lines:
                if line.startswith(_FAILED):
                    sys.stderr.write(line.decode(errors="replace"))
                    return 1
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
