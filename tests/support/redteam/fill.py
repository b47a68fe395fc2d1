"""Placeholders and filters of the case format."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import textwrap
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

PLACE = re.compile(r"\{\{([A-Za-z]+)((?::|\|)[^}]*)?\}\}")


class UnknownPlace(ValueError):
    """A placeholder or filter that nothing defines."""


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def apply(value: str, name: str) -> str:
    """One filter.

    Raises:
        UnknownPlace: no such filter.
    """
    kind, _, argument = name.partition(":")
    raw = value.encode()
    table: Mapping[str, Callable[[], str]] = {
        "b64": lambda: _b64(argument + value),
        "b64url": lambda: base64.urlsafe_b64encode(raw).decode(),
        "b64b64": lambda: _b64(_b64(value)),
        "utf16b64": lambda: base64.b64encode(value.encode("utf-16-le")).decode(),
        "wrap76": lambda: "\n".join(textwrap.wrap(value, 76)),
        "hex": lambda: raw.hex(),
        "HEX": lambda: raw.hex().upper(),
        "hexspaced": lambda: raw.hex(" "),
        "octal": lambda: "".join(f"\\{b:03o}" for b in raw),
        "url": lambda: "".join(f"%{b:02X}" for b in raw),
        "doubleurl": lambda: urllib.parse.quote("".join(f"%{b:02X}" for b in raw), safe=""),
        "json": lambda: json.dumps(value)[1:-1].replace("/", "\\/"),
        "html": lambda: "".join(f"&#{ord(c)};" for c in value),
        "shell": lambda: "".join(c if c.isalnum() else "\\" + c for c in value),
        "folded": lambda: "\n ".join(textwrap.wrap(value, 20)),
        "spaced": lambda: " ".join(value),
        "upper": value.upper,
        "lower": value.lower,
        "reversed": lambda: value[::-1],
        "gzip64": lambda: base64.b64encode(gzip.compress(raw)).decode(),
        "first-half": lambda: value[: len(value) // 2],
        "part": lambda: _part(value, argument),
    }
    if kind not in table:
        raise UnknownPlace(f"filter {name!r}")
    return html.unescape(table[kind]()) if kind == "" else table[kind]()


def _part(value: str, which: str) -> str:
    number, _, count = which.partition("/")
    size = -(-len(value) // int(count))
    return value[(int(number) - 1) * size : int(number) * size]


def fill(node: Any, places: Mapping[str, str], canaries: Mapping[str, str]) -> Any:
    """The node with every placeholder in every text (keys too) replaced.

    Raises:
        UnknownPlace: a name that is neither a place nor a canary.
    """
    if isinstance(node, dict):
        return {fill(k, places, canaries): fill(v, places, canaries) for k, v in node.items()}
    if isinstance(node, list):
        return [fill(v, places, canaries) for v in node]
    if not isinstance(node, str):
        return node

    def one(match: re.Match[str]) -> str:
        name, rest = match[1], match[2] or ""
        if name == "LONG":
            return "a" * int(rest[1:])
        if name == "REPEAT":
            text, _, count = rest[1:].rpartition(":")
            return text * int(count)
        filters: list[str] = []
        if name == "C":
            key, *filters = rest[1:].split("|")
            if key not in canaries:
                raise UnknownPlace(f"canary {key!r}")
            value = canaries[key]
        else:
            filters = rest[1:].split("|") if rest.startswith("|") else []
            if name not in places:
                raise UnknownPlace(f"placeholder {name!r}")
            value = places[name]
        for step in filters:
            value = apply(value, step)
        return value

    return PLACE.sub(one, node)
