"""A remoting command, which is a request or an answer, and its two forms on the wire.

All integers are big-endian. A frame is its length, one word with serialisation and length of the
header, the header, and a body that may be empty. Source: RocketMQ's `RemotingCommand`.

Layout frame:

======  ====  ====  ======  =======
offset  size  type  field   meaning
======  ====  ====  ======  =======
0       4     i32   length  of what follows, bytes
4       4     u32   header  serialisation (high byte), and length of the header in bytes
======  ====  ====  ======  =======

Serialisation 0 is a JSON object. Serialisation 1 (ROCKETMQ) is the binary header below. Behind it
stand the remark (i32 length, UTF-8), then an i32 with the length of all fields, then each field:
i16 length, name, i32 length, value.

Layout header:

======  ====  ====  ========  =======
offset  size  type  field     meaning
======  ====  ====  ========  =======
0       2     i16   code      of the request, or of its answer; of longer codes the low 16 bits
2       1     u8    language  of the sender, an index in `codes.LANGUAGES`
3       2     i16   version   of the sender
5       4     i32   opaque    number of the request; its answer has the same
9       4     i32   flag      bit 0: an answer; bit 1: a one-way request, which gets none
======  ====  ====  ========  =======
"""

from __future__ import annotations

import enum
import struct
from typing import Annotated, Final

import msgspec

from .codes import LANGUAGES, OUR_LANGUAGE, OUR_VERSION, RequestCode, ResponseCode

FRAME: Final = {"length": (0, 4), "header": (4, 4)}
HEADER: Final = {
    "code": (0, 2),
    "language": (2, 1),
    "version": (3, 2),
    "opaque": (5, 4),
    "flag": (9, 4),
}
LAYOUTS: Final = {"frame": FRAME, "header": HEADER}

ANSWER: Final = 1
ONE_WAY: Final = 2
#: RocketMQ's limit of a frame, bytes, with its first word.
MAX_FRAME: Final = 16_777_216
WORD: Final = struct.Struct(">I")
_PREFIX: Final = struct.Struct(">iI")
_HEADER: Final = struct.Struct(">hBhii")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_HEADER_BYTES: Final = 0xFFFFFF
#: RocketMQ cuts these requests' codes off in the binary header, and knows none of them there.
_LONG_CODES: Final = {code & 0xFFFF: code for code in RequestCode if code > 0x7FFF}
assert not _LONG_CODES.keys() & set(RequestCode)
assert all(code < 0x8000 for code in _LONG_CODES)

assert _PREFIX.size == sum(FRAME["header"])
assert _HEADER.size == sum(HEADER["flag"])


class BadFrame(ValueError):
    """Bytes that are no frame. Nothing behind them can be understood."""


class Serialization(enum.IntEnum):
    """The form of a header."""

    JSON = 0
    ROCKETMQ = 1


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _JsonHeader(msgspec.Struct, rename="camel"):
    """A header in JSON, as it is read."""

    code: _Int32
    ext_fields: dict[str, msgspec.Raw] | None = None
    flag: _Int32 = 0
    language: str | _Int32 = ""
    opaque: _Int32 = 0
    remark: str | None = None
    version: _Int32 = 0


_JSON: Final = msgspec.json.Decoder(_JsonHeader)


class Command(msgspec.Struct):
    """A request or an answer. `fields` are its `extFields`, the arguments of a request."""

    code: int
    fields: dict[str, str] = {}
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: str = OUR_LANGUAGE
    version: int = OUR_VERSION
    serialization: Serialization = Serialization.JSON

    @property
    def wants_answer(self) -> bool:
        """Whether it is a request that is to be answered."""
        return not self.flag & (ANSWER | ONE_WAY)

    def answer(
        self,
        code: int = ResponseCode.SUCCESS,
        *,
        remark: str | None = None,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Command:
        """The answer to this request, in the same form."""
        return Command(
            code, fields or {}, body, self.opaque, ANSWER, remark, serialization=self.serialization
        )

    def encode(self) -> bytes:
        """The whole frame. Raises ValueError for a header of 16 MiB or more."""
        return b"".join(self.parts())

    def parts(self) -> tuple[bytes, bytes]:
        """The frame up to its body, and the body. Raises as `encode`."""
        binary = self.serialization is Serialization.ROCKETMQ
        header = self._binary_header() if binary else self._json_header()
        if len(header) > _HEADER_BYTES:
            raise ValueError(f"a header of {len(header)} bytes: at most {_HEADER_BYTES}")
        mark = self.serialization << 24 | len(header)
        return _PREFIX.pack(4 + len(header) + len(self.body), mark) + header, self.body

    def _json_header(self) -> bytes:
        # Nothing but these two may be left out: Java takes a number of its own for no opaque.
        fields = {"extFields": self.fields} if self.fields else {}
        remark = {} if self.remark is None else {"remark": self.remark}
        return msgspec.json.encode(
            {
                "code": self.code,
                **fields,
                "flag": self.flag,
                "language": self.language,
                "opaque": self.opaque,
                **remark,
                "serializeTypeCurrentRPC": "JSON",
                "version": self.version,
            }
        )

    def _binary_header(self) -> bytes:
        remark = (self.remark or "").encode()
        fields = bytearray()
        for name, value in self.fields.items():
            key, data = name.encode(), value.encode()
            fields += _I16.pack(len(key)) + key + _I32.pack(len(data)) + data
        code = self.code & 0xFFFF if self.code in _LONG_CODES.values() else self.code
        head = _HEADER.pack(
            code, LANGUAGES.index(self.language), self.version, self.opaque, self.flag
        )
        return head + _I32.pack(len(remark)) + remark + _I32.pack(len(fields)) + fields


def decode(frame: bytes) -> Command:
    """The command in a frame without its first word. Raises BadFrame."""
    (mark,) = WORD.unpack_from(frame)
    end = WORD.size + (mark & _HEADER_BYTES)
    check_header(mark, len(frame))
    header, body = frame[WORD.size : end], frame[end:]
    return _from_json(header, body) if mark >> 24 == 0 else _from_binary(header, body)


def check_header(mark: int, length: int) -> None:
    """Checks the second word of a frame of `length` bytes (without its first). Raises BadFrame."""
    if mark >> 24 not in tuple(Serialization):
        raise BadFrame(f"serialisation {mark >> 24}: 0 (JSON) or 1 (ROCKETMQ) are known")
    if mark & _HEADER_BYTES > length - WORD.size:
        raise BadFrame(f"a header of {mark & _HEADER_BYTES} bytes in a frame of {length}")


def _from_json(header: bytes, body: bytes) -> Command:
    try:
        found = _JSON.decode(header)
        fields = {
            name: text
            for name, raw in (found.ext_fields or {}).items()
            if (text := _untext(raw)) is not None
        }
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"the header is no JSON of a command: {error}") from error
    language = found.language
    if isinstance(language, int):
        language = LANGUAGES[language] if 0 <= language < len(LANGUAGES) else "OTHER"
    return Command(
        found.code, fields, body, found.opaque, found.flag, found.remark, language, found.version
    )


def _from_binary(header: bytes, body: bytes) -> Command:
    try:
        code, language, version, opaque, flag = _HEADER.unpack_from(header)
        remark, at = _take(header, _HEADER.size, _I32)
        data, at = _take(header, at, _I32)
        fields = {}
        at = 0
        while at < len(data):
            name, at = _take(data, at, _I16)
            value, at = _take(data, at, _I32)
            if name and value:  # RocketMQ reads an empty text as none
                fields[name.decode()] = value.decode()
        text = remark.decode() or None
    except (struct.error, ValueError) as error:
        raise BadFrame(f"the binary header ends too early, or is not UTF-8: {error}") from error
    if language >= len(LANGUAGES):
        raise BadFrame(f"language {language}: 0 to {len(LANGUAGES) - 1} are known")
    spoken, form = LANGUAGES[language], Serialization.ROCKETMQ
    if not flag & ANSWER:
        code = _LONG_CODES.get(code, code)
    return Command(code, fields, body, opaque, flag, text, spoken, version, form)


def _take(data: bytes, at: int, length: struct.Struct) -> tuple[bytes, int]:
    """A text behind its length, and the position behind it. Raises ValueError, struct.error."""
    (count,) = length.unpack_from(data, at)
    start = at + length.size
    if not 0 <= count <= len(data) - start:
        raise ValueError(f"{count} bytes at {start} of {len(data)}")
    return data[start : start + count], start + count


def _untext(raw: msgspec.Raw) -> str | None:
    """The text of a value of `extFields`: numbers and booleans as they stood there, null is none.
    Raises ValueError.
    """
    data = bytes(raw)
    if data == b"null":
        return None
    return msgspec.json.decode(data, type=str) if data[:1] == b'"' else data.decode()
