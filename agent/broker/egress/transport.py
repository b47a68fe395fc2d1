"""One HTTP exchange over `requests`, with nothing ambient: no proxy, netrc, cookie or redirect of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from agent.contract.errors import UpstreamError

if TYPE_CHECKING:
    import requests

CONNECT_TIMEOUT_S = 10.0
CHUNK = 65536


class Exchange(Protocol):
    """An answer whose body is still to be read.

    Attributes:
        status: HTTP status.
        headers: lower-case names; of a repeated one the values are joined by commas.
    """

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> Iterator[bytes]:
        """The body as it arrives, content encoding undone.

        Raises:
            UpstreamError: cut off, timed out or not decodable.
        """

    def close(self) -> None:
        """Give the connection back, or drop it where the body was not read."""


class Transport(Protocol):
    """Sends one request."""

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Exchange:
        """
        Args:
            url: complete, in wire form.
            timeout_s: for each wait for bytes.

        Raises:
            UpstreamError: no answer. The text names the host and never the path or a header.
        """


@dataclass(frozen=True)
class Reach:
    """How the network is reached; all of it given, none of it found.

    Attributes:
        proxies: by scheme, as the workflow's environment had them; the URL may hold a password.
        no_proxy: comma-separated hosts that are reached directly.
        ca_file: bundle of certificates in place of the built-in one, or None.
    """

    proxies: Mapping[str, str] | None = None
    no_proxy: str = ""
    ca_file: str | None = None


class RequestsTransport:
    """The real one."""

    def __init__(self, reach: Reach | None = None) -> None:
        """`requests` is imported at the first request: it is a third of the start-up time."""
        self._reach = reach or Reach()
        self._session: requests.Session | None = None

    def warm(self) -> None:
        """Import and set up now, for a caller that has another wait to hide it behind."""
        self._ready()

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Exchange:
        import requests

        session = self._ready()
        host = urlsplit(url).netloc
        prepared = requests.Request(method, url, headers=dict(headers), data=body or None).prepare()
        if prepared.url != url:
            # The library tidies addresses; what was decided on must be what is sent.
            raise UpstreamError(f"{method} {host}", "the address has no single form, so it was not sent")
        try:
            response = session.send(
                prepared,
                stream=True,
                allow_redirects=False,
                timeout=(min(CONNECT_TIMEOUT_S, timeout_s), timeout_s),
                proxies=self._proxies(host),
                verify=self._reach.ca_file or True,
            )
        except requests.RequestException as exc:
            raise UpstreamError(f"{method} {host}", _words(exc)) from None
        return _Answer(f"{method} {host}", response)

    def _ready(self) -> requests.Session:
        if self._session is None:
            import requests

            session = requests.Session()
            session.trust_env = False
            session.headers.clear()
            adapter = requests.adapters.HTTPAdapter(pool_connections=8, pool_maxsize=32, max_retries=0)
            session.mount("https://", adapter)
            session.mount("http://", adapter)
            self._session = session
        return self._session

    def _proxies(self, host: str) -> dict[str, str]:
        import requests

        if not self._reach.proxies or requests.utils.should_bypass_proxies(
            f"//{host}", no_proxy=self._reach.no_proxy or None
        ):
            return {}
        return dict(self._reach.proxies)


class _Answer:
    def __init__(self, step: str, response: requests.Response) -> None:
        self._step = step
        self._response = response
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    def chunks(self) -> Iterator[bytes]:
        import requests
        import urllib3

        raw: Any = self._response.raw
        try:
            # read1 gives what has arrived: a streamed answer of a model must not wait for a full buffer.
            while chunk := raw.read1(CHUNK, decode_content=True):
                yield chunk
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as exc:
            raise UpstreamError(self._step, _words(exc)) from None

    def close(self) -> None:
        self._response.close()


def _words(exc: BaseException) -> str:
    """What went wrong, without the address: it may carry a signature or a proxy's password."""
    name = type(exc).__name__
    known = {
        "ConnectTimeout": "no connection in time",
        "ReadTimeout": "no answer in time",
        "ReadTimeoutError": "no answer in time",
        "SSLError": "the server's certificate could not be verified (input ca-certificates adds one)",
        "ProxyError": "the proxy refused or could not be reached",
        "ConnectionError": "no connection",
    }
    return known.get(name, f"the exchange failed ({name})")
