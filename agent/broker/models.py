"""From `provider/model` to a connection and a wire format. Pure; the key stays in the secret store."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl, urlsplit

from agent.contract.dataclass import dataclass, field, replace
from agent.contract.errors import UserError
from agent.contract.regex import regex


@dataclass(frozen=True)
class Provider:
    """One kind of model server.

    Attributes:
        wire: anthropic, openai-chat or openai-responses.
        origin: scheme and host, or empty where `ai.baseUrl` must say.
        prefix: path before the wire's own, such as `/v1`.
        header: header that carries the key.
        scheme: text before the key in that header.
        fixed: headers every request carries.
    """

    wire: str
    origin: str
    prefix: str = "/v1"
    header: str = "authorization"
    scheme: str = "Bearer "
    fixed: tuple[tuple[str, str], ...] = ()


# Origins and header names as each provider's API reference gives them.
PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(
        "anthropic",
        "https://api.anthropic.com",
        header="x-api-key",
        scheme="",
        fixed=(("anthropic-version", "2023-06-01"),),
    ),
    "openai": Provider("openai-chat", "https://api.openai.com"),
    "openai-responses": Provider("openai-responses", "https://api.openai.com"),
    "openrouter": Provider("openai-chat", "https://openrouter.ai", "/api/v1"),
    "github": Provider("openai-chat", "https://models.github.ai", "/inference"),
    "gemini": Provider("openai-chat", "https://generativelanguage.googleapis.com", "/v1beta/openai"),
    "azure": Provider("openai-chat", "", "/openai/v1", header="api-key", scheme=""),
    "ollama": Provider("openai-chat", "http://127.0.0.1:11434"),
    "vllm": Provider("openai-chat", "http://127.0.0.1:8000"),
    "openai-compatible": Provider("openai-chat", ""),
}

FIRST_KEY = "api-key"  # the input with the first model's key
KEYLESS = ("ollama", "vllm")  # servers of one's own, which mostly ask for no key
_PATHS = {"anthropic": "/messages", "openai-chat": "/chat/completions", "openai-responses": "/responses"}


@dataclass(frozen=True)
class Model:
    """One model to talk to.

    Attributes:
        connection: name of its connection, `model` for the first.
        provider: key of `PROVIDERS`.
        wire: wire format.
        model: the provider's name of it.
        origin: scheme, host and port.
        path: path of the one route.
        header, scheme: where the key goes.
        fixed: further headers.
        query: pairs that every request carries, such as Azure's `api-version`.
        secret: name of the key's secret.
    """

    connection: str
    provider: str
    wire: str
    model: str
    origin: str
    path: str
    header: str
    scheme: str
    fixed: tuple[tuple[str, str], ...] = field(default=())
    query: tuple[tuple[str, str], ...] = field(default=())
    secret: str = FIRST_KEY


def parse_models(names: Sequence[str], base_url: str) -> tuple[Model, ...]:
    """Read `ai.model` and `ai.fallbackModels`.

    Args:
        names: `provider/model` each, the first the preferred one.
        base_url: replaces origin and prefix of the first model's provider, and may carry a query that all its
            requests then carry; empty for the provider's own.

    Raises:
        UserError: unknown provider, no model name, or a base URL that is none.
    """
    models: list[Model] = []
    for index, name in enumerate(names):
        provider_name, separator, model = name.partition("/")
        provider = PROVIDERS.get(provider_name)
        if provider is None or not separator or not model:
            raise UserError(
                f"Model {name!r} must be `provider/model`, such as `anthropic/claude-sonnet-4-5`. "
                f"Providers: {', '.join(PROVIDERS)}."
            )
        origin, prefix = provider.origin, provider.prefix
        query: tuple[tuple[str, str], ...] = ()
        if base_url and (index == 0 or provider_name == names[0].partition("/")[0]):
            origin, prefix, query = _split(base_url, prefix)
        if not origin:
            raise UserError(f"Provider `{provider_name}` needs `base-url`: the address of your server.")
        models.append(
            Model(
                connection="model" if index == 0 else f"model-{index}",
                provider=provider_name,
                wire=provider.wire,
                model=model,
                origin=origin,
                path=prefix + _PATHS[provider.wire],
                header=provider.header,
                scheme=provider.scheme,
                fixed=provider.fixed,
                query=query,
                # a key is for the server it was given for, and is told to no other
                secret=FIRST_KEY if not models or origin == models[0].origin else key_name(provider_name),
            )
        )
    return tuple(models)


def key_name(provider: str) -> str:
    """Name of the secret with the key of a fallback on another server than the first model's: `OPENAI_API_KEY`."""
    return f"{provider.partition('-')[0].upper()}_API_KEY"


def keyed(models: Sequence[Model], has_secret: Callable[[str], bool]) -> tuple[Model, ...] | None:
    """The models as they are asked with the keys that there are; a server of one's own may do without.

    Returns:
        The models, or None where the first one's key is not given: AI features are off.

    Raises:
        UserError: a fallback's key is not given, so that it could never help.
    """
    asked = []
    for model in models:
        if has_secret(model.secret):
            asked.append(model)
        elif model.provider in KEYLESS:
            asked.append(replace(model, header=""))
        elif model.secret == FIRST_KEY:
            return None
        else:
            raise UserError(
                f"The fallback model `{model.provider}/{model.model}` is asked at another server than the first, which "
                f"has a key of its own: give it as `{model.secret}`, a line of the input `secrets` (in the library: by "
                "`fallback_api_keys`)."
            )
    return tuple(asked)


# An address is told in manifest and transcript, so no key may stand in it.
_CREDENTIAL = regex(r"key|token|secret|passw|auth|sig|code", re.IGNORECASE)


def _split(base_url: str, prefix: str) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Origin, prefix and query of a base URL; a bare host keeps the provider's prefix."""
    try:
        parts = urlsplit(base_url)
        port = f":{parts.port}" if parts.port else ""
        query = tuple(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else ()
    except ValueError as exc:
        raise UserError(f"`base-url` is no URL: {exc}.") from exc
    if any(_CREDENTIAL.search(name) for name, _ in query) or parts.username:
        raise UserError("`base-url` must not hold a key or a user: pass the key as `api-key`.")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or len(dict(query)) < len(query):
        raise UserError(f"`base-url` {base_url!r} must be http(s)://host[:port][/path][?name=value], each name once.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}", parts.path.rstrip("/") or prefix, query
