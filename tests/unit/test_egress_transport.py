"""Both transports over real sockets: nothing ambient, proxies as given, certificates verified."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest

from agent.broker.egress.direct import DirectTransport
from agent.broker.egress.proxied import ProxiedTransport
from agent.broker.egress.transport import Reach, Transport, make_transport
from agent.contract.errors import UpstreamError
from tests.support.stub_http import Seen, reply, serving

HEADERS = {"authorization": "Bearer x", "user-agent": "airlock-agent"}


@pytest.fixture(params=["direct", "proxied"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return DirectTransport() if request.param == "direct" else ProxiedTransport(Reach())


def body(transport: Transport, url: str, method: str = "GET", data: bytes = b"") -> bytes:
    answer = transport.send(method, url, HEADERS, data, 5.0)
    try:
        return b"".join(answer.chunks())
    finally:
        answer.close()


def test_what_is_sent_is_exactly_what_was_given(transport: Transport) -> None:
    """No library's own headers, no tidied address, no cookie from the answer before."""
    with serving() as hub:
        hub.answer = lambda seen: [reply(b"ok", set_cookie="session=1; Path=/")]
        url = f"{hub.url}/a%20b/fix%2342/it's-me+x@1,2?q=a%26b&page=2"
        body(transport, url)
        body(transport, url, "POST", b"{}")
        headers = {**HEADERS, "host": f"127.0.0.1:{hub.port}", "accept-encoding": "identity"}

        assert hub.seen == [
            Seen("GET", "/a%20b/fix%2342/it's-me+x@1,2?q=a%26b&page=2", headers, b""),
            Seen(
                "POST",
                "/a%20b/fix%2342/it's-me+x@1,2?q=a%26b&page=2",
                {**headers, "content-length": "2"},
                b"{}",
            ),
        ]


def test_redirects_are_left_to_the_caller(transport: Transport) -> None:
    """A 302 is an answer like any other."""
    with serving() as hub, serving() as elsewhere:
        hub.answer = lambda seen: [reply(b"", 302, location=elsewhere.url)]
        answer = transport.send("GET", f"{hub.url}/", HEADERS, b"", 5.0)
        answer.close()

        assert (answer.status, answer.headers["location"], elsewhere.connections) == (302, elsewhere.url, 0)


def test_proxies_netrc_and_certificates_of_the_environment_are_not_used(
    transport: Transport, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the job's environment says steers nothing: a proxy there would see the token."""
    with serving() as hub, serving() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")
        plain = transport.send("GET", f"{hub.url}/x", {"user-agent": "a"}, b"", 5.0)
        plain.close()

        assert proxy.connections == 0
        assert "authorization" not in hub.seen[0].headers


def test_a_given_proxy_is_used_but_for_what_it_is_not_for() -> None:
    """Through the proxy by its absolute form; no_proxy hosts directly."""
    with serving() as hub, serving() as proxy:
        proxy.answer = lambda seen: [reply(b"by proxy")]
        through = make_transport(Reach(proxies={"http": f"http://user:pw@127.0.0.1:{proxy.port}"}))
        around = make_transport(Reach(proxies={"http": proxy.url}, no_proxy="internal, 127.0.0.1"))

        assert body(through, "http://api.example/repos") == b"by proxy"
        assert (proxy.seen[0].target, hub.seen) == ("http://api.example/repos", [])
        assert "proxy-authorization" in proxy.seen[0].headers
        assert body(around, f"{hub.url}/x") == b"{}"
        assert len(proxy.seen) == 1


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("", "https://api.github.com/x", False),
        ("github.com", "https://api.github.com/x", True),
        (".github.com", "https://api.github.com/x", True),
        ("*.github.com", "https://api.github.com/x", True),
        ("github.com", "https://notgithub.com/x", False),
        ("*", "https://api.github.com/x", True),
        ("api.github.com:443", "https://API.github.com/x", True),
        ("x", "http://api.github.com/x", True),
    ],
)
def test_no_proxy_names_a_host_and_what_is_below_it(no_proxy: str, url: str, *, direct: bool) -> None:
    """One row a form; a scheme without a proxy is direct."""
    reach = Reach(proxies={"https": "http://proxy"}, no_proxy=no_proxy)

    assert (reach.proxy_for(url) is None) == direct


def test_a_proxys_password_is_in_no_representation_and_no_error() -> None:
    """A proxy's address may hold a password."""
    reach = Reach(proxies={"http": "http://user:CANARYpassword@127.0.0.1:1"})

    assert "CANARY" not in repr(reach)
    with pytest.raises(UpstreamError) as error:
        body(make_transport(reach), "http://api.example/repos/secret-path")
    assert "CANARY" not in str(error.value)
    assert "secret-path" not in str(error.value)


def test_nobody_listening_and_no_such_name_are_told_in_words(transport: Transport) -> None:
    """The host is named, the path is not."""
    with serving() as hub:
        gone = hub.url
    with pytest.raises(UpstreamError, match=r"^GET 127\.0\.0\.1:\d+: (the connection was refused|no connection)$"):
        body(transport, f"{gone}/secret-path")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "airlock test")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "cert.pem"
    file.write_bytes(
        built.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


@pytest.mark.parametrize("kind", [DirectTransport, ProxiedTransport])
def test_an_unknown_certificate_is_refused_and_a_given_one_accepted(
    kind: type[DirectTransport] | type[ProxiedTransport], certificate: Path
) -> None:
    """TLS is verified; `ca-certificates` adds one's own authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(context) as hub:
        url = hub.url.replace("http://", "https://") + "/x"
        with pytest.raises(UpstreamError, match="certificate could not be verified"):
            body(kind(Reach()), url)
        assert hub.seen == []
        assert body(kind(Reach(ca_file=str(certificate))), url) == b"{}"
