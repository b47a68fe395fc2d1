"""How a request gets onto the wire: the port, and the choice between its two implementations.

Nothing is ambient: no proxy, netrc, cookie or certificate is found by itself; all of it is given.

`direct` speaks `http.client`; `proxied` speaks `requests`, whose import alone takes longer than a run may take
to its first model request (150 ms against 40), so it is loaded only where there is a proxy to go through.
Both are held to the same tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from agent.contract.dataclass import dataclass, field
from agent.contract.errors import UpstreamError

CONNECT_TIMEOUT_S = 10.0
CHUNK = 65536


class Dropped(UpstreamError):
    """No answer at all, for a reason that may be gone a second later: refused, cut off, a name not resolved."""


class Exchange(Protocol):
    """An answer whose body is still to be read."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names; of a repeated one the values are joined by commas."""

    def chunks(self) -> Iterator[bytes]:
        """The body as it arrives, content encoding undone.

        Raises:
            UpstreamError: cut off, timed out or not decodable.
        """

    def close(self) -> None:
        """Give the connection back, or drop it where the body was not read to its end."""


class Transport(Protocol):
    """Sends one request. Safe for several threads."""

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Exchange:
        """
        Args:
            url: complete, in wire form.
            timeout_s: for each wait for bytes.

        Raises:
            Dropped: no answer, and another try may have one.
            UpstreamError: no answer. The text names the host and never the path or a header.
        """


@dataclass(frozen=True)
class Reach:
    """How the network is reached.

    Attributes:
        proxies: address of the proxy by scheme (`http`, `https`); it may hold a password, so it is not shown.
        no_proxy: hosts reached directly: comma-separated names, each with its subdomains, or `*`.
        ca_file: PEM bundle that is trusted beside the system's, or None.
    """

    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    no_proxy: str = ""
    ca_file: str | None = None

    def proxy_for(self, url: str) -> str | None:
        """The proxy for this address, or None for a direct connection."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        for entry in self.no_proxy.lower().replace(",", " ").split():
            name = entry.partition(":")[0].lstrip("*.")
            if entry == "*" or host == name or (name and host.endswith(f".{name}")):
                return None
        return self.proxies.get(parts.scheme) or None


def make_transport(reach: Reach | None = None) -> Transport:
    """The transport of a run."""
    return _Chosen(reach or Reach())


class _Chosen:
    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._direct: Transport | None = None
        self._proxied: Transport | None = None

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Exchange:
        if self._reach.proxy_for(url) is not None:
            if self._proxied is None:
                from agent.broker.egress.proxied import ProxiedTransport

                self._proxied = ProxiedTransport(self._reach)
            return self._proxied.send(method, url, headers, body, timeout_s)
        if self._direct is None:
            from agent.broker.egress.direct import DirectTransport

            self._direct = DirectTransport(self._reach)
        return self._direct.send(method, url, headers, body, timeout_s)


def reach_of(secret_inputs: Mapping[str, str], ca_file: str | None) -> Reach:
    """Proxies of the runner; they may hold a password, so they arrive with the secrets."""
    proxies = {
        scheme: value
        for scheme in ("http", "https")
        if (value := secret_inputs.get(f"{scheme}_proxy") or secret_inputs.get(f"{scheme.upper()}_PROXY"))
    }
    no_proxy = secret_inputs.get("no_proxy") or secret_inputs.get("NO_PROXY") or ""
    return Reach(proxies=proxies, no_proxy=no_proxy, ca_file=ca_file or None)
