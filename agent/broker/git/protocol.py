"""The part of git's wire protocol version 2 that a fetch needs. Pure: bytes in, values out.

Everything that comes in is from the network: lengths are checked before they are used, and what is not
understood is an error, never skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agent.broker.git.objects import is_sha
from agent.contract.dataclass import dataclass, field
from agent.contract.errors import UpstreamError

FLUSH, DELIMITER, END = b"0000", b"0001", b"0002"
_LINE_CAP = 65520
_AGENT = "agent=airlock"


def line(text: str) -> bytes:
    """One pkt-line of text with a newline."""
    data = text.encode() + b"\n"
    return b"%04x" % (len(data) + 4) + data


def fetch_request(
    wants: Sequence[str], haves: Sequence[str] = (), shallow: Sequence[str] = (), depth: int | None = None
) -> bytes:
    """Body that asks for a pack.

    Args:
        wants: commit ids to get.
        haves: commit ids that are here.
        shallow: commits whose parents are not here.
        depth: commits of history to get; None is all.
    """
    parts = [line("command=fetch"), line(_AGENT), line("object-format=sha1"), DELIMITER]
    parts += [line("thin-pack"), line("no-progress"), line("ofs-delta")]
    parts += [line(f"want {sha}") for sha in wants]
    parts += [line(f"shallow {sha}") for sha in shallow]
    parts += [line(f"deepen {depth}")] if depth is not None else []
    parts += [line(f"have {sha}") for sha in haves]
    return b"".join((*parts, line("done"), FLUSH))


def packets(chunks: Iterable[bytes]) -> Iterator[bytes | None]:
    """Payload of each pkt-line; None for flush, delimiter and response end.

    Raises:
        UpstreamError: not pkt-lines, or cut off.
    """
    buffer = bytearray()
    stream = iter(chunks)

    def need(size: int) -> bool:
        while len(buffer) < size:
            chunk = next(stream, None)
            if chunk is None:
                return False
            buffer.extend(chunk)
        return True

    while need(1):
        if not need(4):
            raise UpstreamError("fetch", "the answer is cut off")
        try:
            size = int(bytes(buffer[:4]), 16)
        except ValueError:
            raise UpstreamError("fetch", "the answer is not git's protocol") from None
        if size < 4:
            del buffer[:4]
            yield None
            continue
        if size > _LINE_CAP or not need(size):
            raise UpstreamError("fetch", "the answer is cut off or not git's protocol")
        payload = bytes(buffer[4:size])
        del buffer[:size]
        yield payload


@dataclass
class PackAnswer:
    """The answer to a fetch, read as it comes.

    Attributes:
        shallow, unshallow: commits whose parents are, or are no longer, left out; complete once `pack` begins.
    """

    chunks: Iterable[bytes]
    shallow: list[str] = field(default_factory=list)
    unshallow: list[str] = field(default_factory=list)

    def pack(self) -> Iterator[bytes]:
        """Bytes of the pack.

        Raises:
            UpstreamError: see `packets`, the server's own error, or no pack.
        """
        section = ""
        for payload in packets(self.chunks):
            if section == "packfile":
                if payload is None:
                    return
                if payload[:1] == b"\1":
                    yield payload[1:]
                elif payload[:1] == b"\3":
                    raise UpstreamError("fetch", payload[1:].decode("utf-8", "replace").strip()[:300])
                elif payload[:1] != b"\2":
                    raise UpstreamError("fetch", "the answer is not git's protocol")
                continue
            if payload is None:
                section = ""
                continue
            _raise_error(payload)
            text = payload.decode("ascii", "replace").rstrip("\n")
            if not section:
                section = text
            elif section == "shallow-info":
                word, _, sha = text.partition(" ")
                if is_sha(sha):
                    (self.shallow if word == "shallow" else self.unshallow).append(sha)
        raise UpstreamError("fetch", "the answer holds no pack, or is cut off")


def _raise_error(payload: bytes) -> None:
    if payload.startswith(b"ERR "):
        raise UpstreamError("fetch", payload[4:].decode("utf-8", "replace").strip()[:300])
