"""One HTTP exchange through the workflow's proxy, over `requests`; the only module that imports it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3

from agent.broker.egress.inflate import inflate
from agent.broker.egress.transport import CHUNK, CONNECT_TIMEOUT_S, Dropped, Exchange, Reach
from agent.contract.errors import UpstreamError


class ProxiedTransport:
    """Connections by the proxy that `Reach` names. No redirects, cookies, netrc or environment."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.clear()
        adapter = requests.adapters.HTTPAdapter(pool_connections=8, pool_maxsize=32, max_retries=0)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Exchange:
        parts = urlsplit(url)
        step = f"{method} {parts.netloc}"
        wanted = {"accept-encoding": "identity", **headers}
        prepared = requests.Request(method, url, headers=wanted, data=body or None).prepare()
        if prepared.url != url:
            # The library tidies addresses; what was decided on must be what is sent.
            raise UpstreamError(step, "the address has no single form, so it was not sent")
        proxy = self._reach.proxy_for(url)
        try:
            response = self._session.send(
                prepared,
                stream=True,
                allow_redirects=False,
                timeout=(min(CONNECT_TIMEOUT_S, timeout_s), timeout_s),
                proxies={parts.scheme: proxy} if proxy else {},
                verify=self._reach.ca_file or True,
            )
        except (requests.RequestException, ValueError, OSError) as exc:
            # the exact class: its subclasses are time-outs, certificates and a proxy that says no
            dropped = type(exc) is requests.ConnectionError
            raise (Dropped if dropped else UpstreamError)(step, _words(exc)) from None
        return _Answer(step, response)


class _Answer:
    def __init__(self, step: str, response: requests.Response) -> None:
        self._step = step
        self._response = response
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}

    def chunks(self) -> Iterator[bytes]:
        if self.headers.get("content-encoding", "identity").lower() == "gzip":
            return inflate(self._raw(), self._step)
        return self._raw()

    def _raw(self) -> Iterator[bytes]:
        raw: Any = self._response.raw
        try:
            # read1 gives what has arrived: a streamed answer of a model must not wait for a full buffer.
            while chunk := raw.read1(CHUNK, decode_content=False):
                yield chunk
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as exc:
            raise UpstreamError(self._step, _words(exc)) from None

    def close(self) -> None:
        self._response.close()


def _words(exc: BaseException) -> str:
    """What went wrong, without the address: it may carry a signature or the proxy's password."""
    known = {
        "ConnectTimeout": "no connection in time",
        "ReadTimeout": "no answer in time",
        "ReadTimeoutError": "no answer in time",
        "SSLError": "the server's certificate could not be verified (the input ca-certificates adds one)",
        "ProxyError": "the proxy refused or could not be reached",
        "ConnectionError": "no connection",
        "IncompleteRead": "the answer was cut off",
        "ProtocolError": "the answer was cut off",
    }
    return known.get(type(exc).__name__, f"the exchange failed ({type(exc).__name__})")
