"""Which paths a pattern protects: `*` and `?` within a component, `**` over several, in any case and form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from agent.broker.git.objects import LINK, Entry, folded


def patterns_of(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """Patterns as folded components; empty ones are left out."""
    found = [tuple(p for p in folded(text).split("/") if p not in ("", ".")) for text in texts]
    return [parts for parts in found if parts]


def covers(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """True when the pattern names the path, a folder above it, or something below it.

    The last holds because a file or link at `scripts` replaces `scripts/prepush.sh`; the changes themselves
    are files, so an honest change below `scripts` is no prefix of the pattern.
    """
    return within(pattern, names) or _above(pattern, names)


def within(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """True when the pattern matches the path or one of the folders above it."""
    return any(_match(pattern, names[:length]) for length in range(1, len(names) + 1))


def _above(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """True when the path is a folder above what the pattern names; `**` is taken to begin just below it."""
    head = pattern[: len(names)]
    return len(head) == len(names) < len(pattern) and "**" not in head and _match(head, names)


def _match(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Glob match of components; linear in pattern times names."""
    reach = {0}
    for part in pattern:
        if part == "**":
            reach = set(range(min(reach), len(names) + 1)) if reach else set()
        else:
            reach = {i + 1 for i in reach if i < len(names) and _component(part, names[i])}
    return len(names) in reach


def _component(pattern: str, name: str) -> bool:
    """`*` and `?` within one component, without backtracking."""
    reach = {0}
    for char in pattern:
        if char == "*":
            reach = set(range(min(reach), len(name) + 1)) if reach else set()
        else:
            reach = {i + 1 for i in reach if i < len(name) and char in ("?", name[i])}
    return len(name) in reach


def protected_targets(
    protected: Iterable[str], entries: Mapping[bytes, Entry], target_of: Callable[[Entry], bytes]
) -> tuple[str, ...]:
    """Where protected paths lead through links of the base tree, so that the script itself is protected too.

    Args:
        protected: paths; patterns are left alone.
        entries: files and links of the base tree.
        target_of: text of a link.

    Returns:
        Repository-relative paths to protect on top; links out of the repository add nothing.
    """
    found: list[str] = []
    for text in protected:
        todo, seen = [text.encode("utf-8", "surrogateescape").strip(b"/")], 0
        while todo and seen < 40:  # as many links as the kernel follows
            seen += 1
            path = todo.pop()
            parts = path.split(b"/")
            for length in range(1, len(parts) + 1):
                prefix = b"/".join(parts[:length])
                entry = entries.get(prefix)
                if entry is None or entry.mode != LINK:
                    continue
                joined = _join(parts[: length - 1], target_of(entry), parts[length:])
                if joined is not None:
                    found.append(joined.decode("utf-8", "surrogateescape"))
                    todo.append(joined)
                break
    return tuple(found)


def _join(above: Sequence[bytes], target: bytes, rest: Sequence[bytes]) -> bytes | None:
    """Path that a link in the folder `above` leads to, or None when that lies outside the repository."""
    if target.startswith(b"/"):
        return None
    parts = list(above)
    for part in (*target.split(b"/"), *rest):
        if part == b"..":
            if not parts:
                return None
            parts.pop()
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/".join(parts) or None
