"""Random values in the shape of the real thing, new for each run."""

from __future__ import annotations

import base64
import json
import secrets
import string

ALNUM = string.ascii_letters + string.digits


def text(length: int, alphabet: str = ALNUM) -> str:
    """Random characters."""
    return "".join(secrets.choice(alphabet) for _ in range(length))


def jwt() -> str:
    """Three base64url parts, as the runner's own tokens have."""
    head = base64.urlsafe_b64encode(json.dumps({"typ": "JWT", "alg": "RS256", "kid": text(8)}).encode())
    body = base64.urlsafe_b64encode(json.dumps({"nameid": text(24), "scp": text(40)}).encode())
    return f"{head.decode().rstrip('=')}.{body.decode().rstrip('=')}.{text(86, ALNUM + '-_')}"


def github_token(*, long: bool = False) -> str:
    """A workflow token, in the short or the long form of 2026."""
    return f"ghs_{secrets.randbelow(900000) + 100000}_{jwt()}" if long else "ghs_" + text(36)


def make(*, long_token: bool = False) -> dict[str, str]:
    """The canaries of the standard world."""
    return {
        "gh": github_token(long=long_token),
        "llm": "sk-ant-api03-" + text(93, ALNUM + "-_") + "AA",
        "runtime": jwt(),
        "oidc": jwt(),
        "job": text(12) + "-" + text(14),
        "plain": text(20) + "_" + text(20),
        "checkout": "ghs_" + text(36),
        "checkout6": "ghs_" + text(36),
        "home": "npm_" + text(36),
        "sibling": text(40, ALNUM + "/+"),
    }
