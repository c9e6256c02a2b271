"""Patterns of addresses whose requests are not checked (RocketMQ's RemoteAddressStrategyFactory).

===================  ==========
pattern              matches
===================  ==========
``*``                everything
10.0.0.5             one address
10.0.*.*             every number in the place of a star
192.168.1-20.7       numbers of a range
10.0.0.{5,6}         the numbers of a list, in the last place
10.0.0.5,10.0.0.6    any of several patterns
10.0.0.0/8           a network
===================  ==========

Each of them may be IPv6 as well, with ``:`` and hexadecimal numbers. RocketMQ looks at the first
place with a star or a range and ignores what stands behind it; here every place counts. Networks
are this project's own.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Places, bits of a place, the base of its numbers, and what stands between them.
_V4: Final = (4, 8, 10, ".")
_V6: Final = (8, 16, 16, ":")
_LIST: Final = re.compile(r"([^{}]+)\{([^{}]+)\}")
_ALL: Final = frozenset(("*", "*.*.*.*", "*:*:*:*:*:*:*:*"))
#: A longer list can be given as several.
_MOST_CHARACTERS: Final = 4096
#: Commas that are not within braces.
_COMMA: Final = re.compile(r",(?![^{]*\})")


class AddressPattern:
    """One pattern, as the file has it. Raises ValueError, which says what is wrong."""

    def __init__(self, text: str) -> None:
        if len(text) > _MOST_CHARACTERS:
            raise ValueError(f"a pattern has at most {_MOST_CHARACTERS} characters")
        self._text = text
        self._all = text.strip() in _ALL
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        #: Ranges of the numbers in each place.
        self._places: list[list[range]] = []
        if not self._all:
            for part in _COMMA.split(text):
                self._add(part.strip())

    def _add(self, part: str) -> None:
        if "/" in part:
            self._networks.append(ipaddress.ip_network(part))
            return
        several = _LIST.fullmatch(part)
        if several:
            for last in several[2].split(","):
                self._places.append(_places(several[1] + last.strip()))
        else:
            self._places.append(_places(part))

    def __str__(self) -> str:
        return self._text

    def matches(self, address: Address) -> bool:
        """Whether the address is one of these."""
        if self._all or any(address in network for network in self._networks):
            return True
        size = 2 if address.version == 6 else 1
        packed = address.packed
        numbers = [int.from_bytes(packed[i : i + size], "big") for i in range(0, len(packed), size)]
        return any(
            len(places) == len(numbers)
            and all(number in place for number, place in zip(numbers, places, strict=True))
            for places in self._places
        )


def _places(text: str) -> list[range]:
    """The numbers of each place of an address. Raises ValueError."""
    count, bits, base, between = _V6 if ":" in text else _V4
    parts = text.split(between)
    if between == ":" and "::" in text:
        head, _, tail = text.partition("::")
        before, after = head.split(":") if head else [], tail.split(":") if tail else []
        parts = [*before, *("0" for _ in range(count - len(before) - len(after))), *after]
    if len(parts) != count:
        raise ValueError(f"{text!a} is no address: it has {len(parts)} numbers, not {count}")
    return [_numbers(part, bits, base, text) for part in parts]


def _numbers(part: str, bits: int, base: int, text: str) -> range:
    if part == "*":
        return range(1 << bits)
    first, dash, last = part.partition("-")
    digits = re.compile(r"[0-9]{1,3}" if base == 10 else r"[0-9a-fA-F]{1,4}")
    if not all(digits.fullmatch(one) for one in (first, last if dash else first)):
        raise ValueError(f"{text!a} is no address: {part!a} is no number, * or range")
    low = int(first, base)
    high = int(last, base) if dash else low
    if not low <= high < 1 << bits:
        raise ValueError(f"{text!a} is no address: {part!a} is not within 0-{(1 << bits) - 1:d}")
    return range(low, high + 1)


def address_of(host: bytes) -> Address:
    """The address in the first bytes of a host as records have it, 8 or 20 bytes with its port."""
    address = ipaddress.ip_address(host[:-4])
    mapped = address.ipv4_mapped if address.version == 6 else None
    return mapped or address
