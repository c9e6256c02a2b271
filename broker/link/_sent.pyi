from collections.abc import Callable

from ...client.producing._ring import Pending, Ring

class Sent(Pending):
    @property
    def status(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def store_timestamp(self) -> int: ...

def put(
    ring: Ring,
    records: bytes,
    count: int,
    slot: int,
    then: Callable[[Sent], object],
    *,
    wait: bool,
) -> bool: ...
def settle(ring: Ring) -> None: ...
def lose(ring: Ring) -> None: ...
