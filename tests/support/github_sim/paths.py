"""What a path means once the most lenient proxy has had it (decoded again and again, tidied, fragment cut)."""

from __future__ import annotations

import re
from urllib.parse import unquote


def split_target(target: str) -> tuple[str, str, str]:
    """(raw path, query, foreign host) of a request target; an absolute target names its host."""
    host = ""
    match = re.match(r"^[a-zA-Z][a-zA-Z0-9+.-]*://([^/?#]*)", target)
    if match:
        host, target = match[1], target[match.end() :] or "/"
    target = target.partition("#")[0]
    path, _, query = target.partition("?")
    return path, query, host


def lenient(raw: str) -> str:
    """The decoded path. Honest paths are decoded once; those with tricks are decoded to the end and resolved."""
    full, rounds = raw, 0
    while rounds < 6:
        after = unquote(full, errors="replace")
        if after == full:
            break
        full, rounds = after, rounds + 1
    full = full.replace("\\", "/")
    tricky = "//" in full or any(re.sub(r";.*", "", part) in (".", "..") for part in full.split("/"))
    if not tricky:
        return unquote(raw, errors="replace")
    out: list[str] = []
    for part in full.split("/"):
        bare = re.sub(r";.*", "", part)
        if bare == "..":
            if out:
                out.pop()
        elif bare not in ("", "."):
            out.append(bare)
    return "/" + "/".join(out)
