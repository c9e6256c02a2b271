"""A message's properties: the string of names and values at the end of each record.

Pairs are `name 0x01 value 0x02` in UTF-8. In data of old clients the last 0x02 may be missing
(RocketMQ: `MessageDecoder.messageProperties2String` and `string2messageProperties`). Nothing is
escaped. The length is stored as an i16, so the limit is 32,767 bytes.

With `enabledAppendPropCRC` the last 20 bytes are the pair `__CRC32#`. Its value is a checksum over
all of the record before it, as ten decimal digits, *least significant first*
(`MessageDecoder.createCrc32`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from ..errors import IllegalMessage
from ..names import is_light_queue, validate_topic
from ..status import PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"
KEY_SEPARATOR: Final = " "
MAX_PROPERTIES_BYTES: Final = 32767

TAGS: Final = "TAGS"
KEYS: Final = "KEYS"
UNIQ_KEY: Final = "UNIQ_KEY"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QID: Final = "REAL_QID"
RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
CRC32: Final = "__CRC32#"
MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
#: As many digits has each offset that append fills in, and in so many light queues it puts a
#: message (`properties.h`).
LIGHT_DIGITS: Final = 19
LIGHT_MOST: Final = 128

CRC_DIGITS: Final = 10
#: Size in bytes of the whole `__CRC32#` pair.
CRC_PAIR_BYTES: Final = len(CRC32) + 1 + CRC_DIGITS + 1
assert CRC_PAIR_BYTES == 20, "RocketMQ reserves CRC32_RESERVED_LEN = 20 bytes"
assert len(str(0x7FFFFFFF)) == CRC_DIGITS, "a masked CRC always fits"


def encode_properties(properties: Mapping[str, str | None]) -> bytes:
    """The bytes of `properties`, in the mapping's order. A pair whose value is None is left out.

    Raises IllegalMessage with MESSAGE_ILLEGAL for pairs that a reader would not get back unchanged:

    - empty names or values, which RocketMQ's reader drops;
    - the separators 0x01 and 0x02, which cannot be escaped;
    - lone surrogates, which are not UTF-8.

    Raises it with PROPERTIES_SIZE_EXCEEDED above 32,767 bytes.
    """
    pairs = {name: value for name, value in properties.items() if value is not None}
    for name, value in pairs.items():
        _check_pair(name, value)
    text = "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()])
    try:
        data = text.encode()
    except UnicodeEncodeError as e:
        why = f"the properties hold a lone surrogate, {text[e.start]!a}: that is not UTF-8"
        raise _illegal(why) from e
    check_properties_size(len(data))
    return data


def check_properties_size(size: int) -> None:
    """Raises IllegalMessage (PROPERTIES_SIZE_EXCEEDED) for a string of more than 32,767 bytes."""
    if size > MAX_PROPERTIES_BYTES:
        raise IllegalMessage(
            PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
            f"the properties have {size} bytes; at most {MAX_PROPERTIES_BYTES} are allowed:"
            " move large values into the body",
        )


def decode_properties(
    data: bytes | bytearray | memoryview, errors: Literal["strict", "replace"] = "strict"
) -> dict[str, str]:
    """The names and values in a property string. If a name occurs twice, the last value counts.

    A pair without separator, or with an empty name or value, is dropped, as in RocketMQ. Bytes that
    are not UTF-8 raise UnicodeDecodeError or, with `errors="replace"`, become U+FFFD as in Java.
    """
    properties: dict[str, str] = {}
    for pair in str(data, "utf-8", errors).split(PROPERTY_SEPARATOR):
        name, _, value = pair.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def index_keys(properties: Mapping[str, str]) -> list[str]:
    """The keys under which the index has a message, in the order in which dispatch adds them.

    UNIQ_KEY first, then KEYS split at single spaces without empty pieces (RocketMQ:
    `IndexService.buildIndex`). A key that occurs twice is added twice.
    """
    uniq = properties.get(UNIQ_KEY)
    keys = [uniq] if uniq else []
    keys += [key for key in properties.get(KEYS, "").split(KEY_SEPARATOR) if key]
    return keys


def light_queues(properties: Mapping[str, str]) -> dict[str, int]:
    """The further queues that a message names: their names, each with the message's offset there.

    RocketMQ puts a message of INNER_MULTI_DISPATCH into queue 0 of each light queue (LMQ) that this
    names, and notes the offsets in INNER_MULTI_QUEUE_OFFSET. Both are lists with commas. A message
    whose lists differ in length is in none (`ConsumeQueue.multiDispatchLmqQueue`).
    """
    # As Java's String.split, which drops empty items at the end.
    names = properties.get(MULTI_DISPATCH, "").rstrip(",").split(",")
    numbers = properties.get(MULTI_QUEUE_OFFSET, "").rstrip(",").split(",")
    if len(names) != len(numbers):
        return {}
    pairs = zip(reversed(names), reversed(numbers), strict=True)
    return {name: int(n) for name, n in pairs if name and _is_light_offset(n)}


def _is_light_offset(digits: str) -> bool:
    """Whether the kernels take it for one (`silo_light_offset`)."""
    return len(digits) <= LIGHT_DIGITS and digits.isascii() and digits.isdigit()


def parse_light_queues(text: str) -> tuple[str, ...]:
    """The light queues that an outgoing message is to lie in: the value of INNER_MULTI_DISPATCH.

    Raises IllegalMessage for a name that is not a light queue's, for one that occurs twice, and for
    more than 128.
    """
    names = tuple(text.split(","))
    for name in names:
        if not is_light_queue(name):
            raise _illegal_light(f"{name[:40]!a} is no light queue's name (%LMQ%...)")
        validate_topic(name)
    if len(set(names)) < len(names) or len(names) > LIGHT_MOST:
        raise _illegal_light(f"up to {LIGHT_MOST} light queues, each of them once")
    return names


def _illegal_light(why: str) -> IllegalMessage:
    return IllegalMessage(
        PutMessageStatus.MESSAGE_ILLEGAL, f"property {MULTI_DISPATCH} names light queues: {why}"
    )


def encode_light_offsets(count: int) -> bytes:
    """The pair INNER_MULTI_QUEUE_OFFSET of a message for `count` light queues. Append fills in the
    digits; RocketMQ reads numbers with zeros before them.
    """
    return f"{MULTI_QUEUE_OFFSET}\x01{','.join(['0' * LIGHT_DIGITS] * count)}\x02".encode()


def encode_crc(crc: int) -> bytes:
    """The 20 bytes of the `__CRC32#` pair for a masked checksum. Raises ValueError outside 0 to
    2**31 - 1.
    """
    if not 0 <= crc <= 0x7FFFFFFF:
        raise ValueError(f"a record checksum is 0 to 2**31 - 1, not {crc}")
    return f"{CRC32}\x01{crc_digits(crc)}\x02".encode()


def crc_digits(crc: int) -> str:
    """A checksum as ten decimal digits, least significant first: 123 is "3210000000"."""
    return f"{crc:010d}"[::-1]


def decode_crc(digits: str) -> int:
    """The checksum of which `digits` are the `crc_digits`. Raises ValueError for anything but ten
    digits.
    """
    if len(digits) != CRC_DIGITS or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"a record checksum is {CRC_DIGITS} digits, not {digits[:40]!a}")
    return int(digits[::-1])


def trailing_crc(properties: bytes) -> int | None:
    """The checksum in the `__CRC32#` pair that ends a property string; None without such a pair."""
    pair = properties[-CRC_PAIR_BYTES:]
    try:
        crc = decode_crc(pair[-CRC_DIGITS - 1 : -1].decode("ascii"))
        return crc if pair == encode_crc(crc) else None
    except ValueError:
        return None


def reserve_crc(data: bytes) -> bytes:
    """`data`, its last pair terminated, and behind it a `__CRC32#` pair whose digits are all zero.

    `__CRC32#` pairs in `data` are removed first, as RocketMQ removes those that a caller supplies.
    """
    kept = [pair for pair in data.split(b"\x02") if not pair.startswith(CRC32.encode() + b"\x01")]
    data = b"\x02".join(kept)
    if data and not data.endswith(b"\x02"):
        data += b"\x02"
    return data + encode_crc(0)


def _check_pair(name: str, value: str) -> None:
    for what, text in ("name", name), ("value", value):
        if not isinstance(text, str):
            raise _illegal(
                f"the {what} of property {name!a} is {type(text).__name__}; only str is allowed"
            )
        if not text:
            raise _illegal(
                f"the {what} of property {name!a} is empty, which readers drop: leave it out"
            )
        if NAME_VALUE_SEPARATOR in text or PROPERTY_SEPARATOR in text:
            raise _illegal(
                f"the {what} of property {name[:80]!a} holds the separator 0x01 or 0x02, which"
                " cannot be escaped: encode it (for example as base64) or put it into the body"
            )


def _illegal(why: str) -> IllegalMessage:
    return IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, why)
