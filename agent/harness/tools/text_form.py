"""The form of a file's text: encoding, line ends, odd bytes. Nothing here alters a byte that is not asked for."""

from __future__ import annotations

import re
import struct

from agent.contract.framing import fold, show_invisible
from agent.contract.regex import regex

_ODD = regex("[\udc80-\udcff]")
_SHOWN_CODE = regex(r"\[U\+([0-9A-F]{4,6})\]")
_SHOWN_BYTE = regex(r"\\x([89a-f][0-9a-f])")

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"), (b"\xff\xd8\xff", "a JPEG image"), (b"GIF8", "a GIF image"),
    (b"RIFF", "a RIFF file (image, sound or video)"), (b"%PDF", "a PDF document"), (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"), (b"\x7fELF", "an ELF program"), (b"BZh", "bzip2 data"), (b"\xfd7zXZ\0", "xz data"),
    (b"SQLite format 3\0", "an SQLite database"), (b"\0asm", "a WebAssembly module"), (b"wOF", "a web font"),
)  # fmt: skip


def encoding_of(head: bytes) -> str:
    """`utf-16-le`, `utf-16-be`, `utf-8-sig` by their byte-order marks, else `utf-8`, which may hold odd bytes."""
    if head.startswith(b"\xff\xfe") and not head.startswith(b"\xff\xfe\0\0"):
        return "utf-16-le"
    if head.startswith(b"\xfe\xff"):
        return "utf-16-be"
    return "utf-8-sig" if head.startswith(b"\xef\xbb\xbf") else "utf-8"


def binary_kind(head: bytes) -> str | None:
    """What a binary file is, in words, or None for text."""
    for magic, words in _MAGIC:
        if head.startswith(magic):
            if magic.startswith(b"\x89PNG") and len(head) >= 24:
                width, height = struct.unpack(">II", head[16:24])
                return f"{words}, {width} x {height}"
            return words
    return "a binary file" if b"\0" in head[:65536] else None


def shown_text(raw: bytes) -> tuple[str, bool]:
    """Text of bytes for reading, odd bytes as `\\xNN`; and whether there were any."""
    try:
        return raw.decode("utf-8"), False
    except UnicodeDecodeError as exc:
        cut_character = exc.start >= len(raw) - 3 and exc.reason == "unexpected end of data"
        return raw.decode("utf-8", "backslashreplace"), not cut_character


def decode(data: bytes) -> tuple[str, str]:
    """Text that `encode` turns back into exactly these bytes, and the encoding.

    Raises:
        ValueError: the bytes cannot be kept so.
    """
    encoding = encoding_of(data)
    text = data.decode(encoding.removesuffix("-sig"), "strict" if encoding.startswith("utf-16") else "surrogateescape")
    if encode(text, encoding) != data:
        raise ValueError("the bytes do not survive decoding")
    return text, encoding


def encode(text: str, encoding: str) -> bytes:
    """Inverse of `decode`; a byte-order mark is the text's first character and stays there."""
    return text.encode(encoding.removesuffix("-sig"), "strict" if encoding.startswith("utf-16") else "surrogateescape")


def as_meant(text: str) -> str:
    """The characters that `[U+200B]` and `\\xe9` stand for where a tool showed them so."""
    text = _SHOWN_CODE.sub(_meant, text)
    return _SHOWN_BYTE.sub(lambda m: chr(0xDC00 + int(m[1], 16)), text)


def _meant(match: re.Match[str]) -> str:
    """The character of a shown code point, if it is one that framing shows so; `[U+0041]` means itself."""
    char = chr(min(int(match[1], 16), 0x10FFFF))
    return char if show_invisible(char) != char or fold(char) == "<" or char in "&%\\=" else match[0]


def as_shown(text: str) -> str:
    """Odd bytes of a decoded text as read_file shows them."""
    return _ODD.sub(lambda m: f"\\x{ord(m[0]) - 0xDC00:02x}", text)


def dominant_end(text: str) -> str:
    """`\\r\\n` when most lines end so, else `\\n`."""
    windows = text.count("\r\n")
    return "\r\n" if windows > text.count("\n") - windows else "\n"
