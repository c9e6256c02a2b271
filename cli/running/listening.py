"""The address at which a server listens: one that other machines reach must be wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..shared.outcome import Exit, Failure

if TYPE_CHECKING:
    from ...broker.wire.address import Address


def listen_address(text: str, why_not: str, *, is_open: bool) -> Address:
    """The address HOST:PORT. Without `is_open` it must be a loopback address, because `why_not`.
    Raises Failure.
    """
    from ...broker.wire.address import Address

    try:
        address = Address.parse(text)
    except ValueError as error:
        raise Failure(Exit.USAGE, f"--listen: {error}") from error
    if not (is_open or address.is_loopback):
        raise Failure(Exit.SETTING, f"--listen {address}: {why_not}")
    return address
