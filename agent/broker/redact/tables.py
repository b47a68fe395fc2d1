"""The published shapes of credentials, as data. Sources: the vendors' own pages on token formats.

All patterns are for bytes. Lower bounds mostly: no vendor promises a length, and GitHub
says to assume none (both forms of `ghs_`: 36 letters and digits, or app id and a JWT of some 520).
"""

from __future__ import annotations

from agent.contract.dataclass import dataclass


@dataclass(frozen=True)
class Token:
    """One shape, in two parts.

    Attributes:
        label: shown in the marker.
        find: RE2, short: what the automaton looks for. Long counted classes would make it slow, since it also
            runs backwards to find where a match began.
        rest: Python `re`, matched right after.
        bounded: a prefix this short must begin a word.
    """

    label: str
    find: str
    rest: str
    bounded: bool = True


_U = r"[A-Za-z0-9_-]"
_A = r"[A-Za-z0-9]"
_H = r"[0-9a-f]"
_N = r"[0-9A-Z]"
_UUID = rf"{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}"


def _t(label: str, find: str, rest: str, *, bounded: bool = True) -> Token:
    return Token(label, find, rest, bounded)


TOKENS: tuple[Token, ...] = (
    _t("private-key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY", r"(?: BLOCK)?-----", bounded=False),
    _t("url-password", r"://[^\s/:@\"'<>?#\\]*:", r"[^\s/@\"'<>\\]+@", bounded=False),
    _t("github-token", r"gh[pousr]_", r"[A-Za-z0-9._-]{36,}", bounded=False),
    _t("github-token", r"github_pat_", r"[A-Za-z0-9_]{36,}", bounded=False),
    _t("jwt", r"\.eyJ[A-Za-z]", rf"{_U}{{8,}}\.(?:{_U}{{8,}})?", bounded=False),
    _t("gitlab-token", r"gl(?:pat|ptt|dt|rt|soat|ft|oas|rtr|imt|agent|ffct)-", r"[A-Za-z0-9_.-]{20,}", bounded=False),
    _t("gitlab-token", r"glcbt-", rf"{_U}{{20,}}", bounded=False),
    _t("bitbucket-token", r"ATBB", rf"{_A}{{28,}}"),
    _t("atlassian-token", r"ATATT3", r"[A-Za-z0-9_=-]{60,}"),
    _t("aws-key-id", r"A(?:KIA|SIA|BIA|CCA)", r"[A-Z2-7]{16}"),
    _t("aws-token", r"(?:ABSK|IQoJb3JpZ2lu)", r"[A-Za-z0-9+/=]{100,}"),
    _t("google-key", r"AIza", rf"{_U}{{35,}}"),
    _t("google-token", r"ya29\.", rf"{_U}{{30,}}"),
    _t("google-secret", r"GOCSPX-", rf"{_U}{{28,}}"),
    _t("google-refresh-token", r"1//0", rf"{_U}{{40,}}"),
    _t("azure-client-secret", r"Q~", r"[A-Za-z0-9._~-]{30,}", bounded=False),
    _t("digitalocean-token", r"do[opr]_v1_", rf"{_H}{{60,}}", bounded=False),
    _t("heroku-key", r"HRKU-AA", rf"{_U}{{50,}}"),
    _t("cloudflare-key", r"v1\.0-", rf"{_H}{{24}}-{_H}{{100,}}"),
    _t("flyio-token", r"fm[12]a?r?_", r"[A-Za-z0-9+/=,_-]{60,}"),
    _t("netlify-token", r"nf[puoc]_", rf"{_A}{{36,}}"),
    _t("alibaba-key-id", r"LTAI", rf"{_A}{{16,}}"),
    _t("model-key", r"sk-(?:proj|admin|svcacct|None)-", rf"{_U}{{40,}}"),
    _t("model-key", r"sk-ant-", rf"[a-z0-9]+-{_U}{{40,}}"),
    _t("model-key", r"sk-or-v1-", rf"{_H}{{40,}}"),
    _t("model-key", r"sk-[A-Za-z0-9]", rf"{_A}{{19}}T3BlbkFJ{_A}{{20}}"),
    _t("model-key", r"sk-[0-9a-f]", rf"{_H}{{31,}}"),
    _t("model-key", r"gsk_", rf"{_A}{{40,}}"),
    _t("model-key", r"xai-", rf"{_A}{{60,}}"),
    _t("model-key", r"pplx-", rf"{_A}{{40,}}"),
    _t("model-key", r"r8_", rf"{_A}{{36,}}"),
    _t("model-key", r"hf_", r"[A-Za-z]{34,}"),
    _t("model-key", r"tgp_v1_", rf"{_U}{{40,}}"),
    _t("slack-token", r"xox[abeoprs][.-]", r"(?:xox[bp]-)?[A-Za-z0-9-]{20,}", bounded=False),
    _t("slack-token", r"xapp-[0-9]-", r"[A-Za-z0-9-]{40,}", bounded=False),
    _t("webhook", r"hooks\.slack\.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{30,}", bounded=False),
    _t("webhook", r"discord(?:app)?\.com/api/webhooks/", rf"[0-9]+/{_U}{{40,}}", bounded=False),
    _t("webhook", r"webhook\.office\.com/webhookb2/", r"[A-Za-z0-9@/-]{60,}", bounded=False),
    _t("discord-token", rf"\.{_U}{{6}}\.{_U}{{4}}", rf"{_U}{{23,}}", bounded=False),
    _t("telegram-token", r":AA[A-Za-z0-9_-]", rf"{_U}{{32}}", bounded=False),
    _t("twilio-key", rf"(?:SK|AC){_H}{{4}}", rf"{_H}{{28}}"),
    _t("sendgrid-key", rf"SG\.{_U}{{4}}", rf"{_U}{{12,}}\.{_U}{{16,}}"),
    _t("mailchimp-key", r"-us[0-9]", r"[0-9]?", bounded=False),
    _t("brevo-key", r"xkeysib-", rf"{_H}{{60,}}-{_A}{{16}}"),
    _t("stripe-key", r"[rsp]k_(?:live|test)_", rf"{_A}{{20,}}"),
    _t("stripe-key", r"whsec_", r"[A-Za-z0-9+/=]{32,}"),
    _t("square-token", r"sq0(?:atp|csp|idp)-", rf"{_U}{{22,}}"),
    _t("shopify-token", r"shp(?:at|ca|pa|ss)_", rf"{_H}{{32}}"),
    _t("plaid-token", r"access-(?:production|development|sandbox)-", _UUID),
    _t("npm-token", r"npm_", rf"{_A}{{36}}"),
    _t("pypi-token", r"pypi-AgE", r"[A-Za-z0-9_-]{50,}"),
    _t("rubygems-key", r"rubygems_", rf"{_H}{{48}}"),
    _t("nuget-key", r"oy2", r"[a-z0-9]{43}"),
    _t("crates-token", rf"cio{_A}{{4}}", rf"{_A}{{28}}(?![A-Za-z0-9])"),
    _t("docker-token", r"dckr_[po]at_", rf"{_U}{{27,}}"),
    _t("jfrog-key", r"AKCp", rf"{_A}{{60,}}"),
    _t("jfrog-key", r"cmVmdGtu", rf"{_A}{{50,}}"),
    _t("sonar-token", r"sq[upa]_", rf"{_H}{{40}}"),
    _t("vault-token", r"hv[sbr]\.", rf"{_U}{{80,}}"),
    _t("terraform-token", r"\.atlasv1\.", rf"{_U}{{60,}}", bounded=False),
    _t("pulumi-token", r"pul-", rf"{_H}{{40}}"),
    _t("databricks-token", r"dapi", rf"{_H}{{32}}(?:-[0-9])?"),
    _t("grafana-token", r"gl(?:sa|c)_", r"[A-Za-z0-9+/=_]{32,}"),
    _t("newrelic-key", r"NRAK-", rf"{_N}{{27}}"),
    _t("sentry-token", r"sntry[su]_", r"[A-Za-z0-9+/=_-]{50,}"),
    _t("dynatrace-token", r"dt0[a-z][0-9]", rf"[0-9]\.{_N}{{24}}\.{_N}{{60,}}"),
    _t("doppler-token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"[A-Za-z0-9._-]{40,}"),
    _t("planetscale-token", r"pscale_(?:tkn|pw|oauth)_", r"[A-Za-z0-9_.-]{32,}"),
    _t("supabase-token", r"sb[ps]_", rf"{_H}{{40}}"),
    _t("tailscale-key", r"tskey-[a-z]", r"[a-z]*-[A-Za-z0-9-]{20,}"),
    _t("onepassword-token", r"ops_eyJ", r"[A-Za-z0-9+/=_-]{100,}"),
    _t(
        "onepassword-secret-key",
        rf"A3-{_N}{{6}}-",
        rf"(?:{_N}{{6}}-{_N}{{5}}|{_N}{{11}})-{_N}{{5}}-{_N}{{5}}-{_N}{{5}}",
    ),
    _t("age-key", r"AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    _t("linear-key", r"lin_(?:api|oauth)_", rf"{_A}{{40}}"),
    _t("notion-token", r"(?:ntn|secret)_", rf"{_A}{{43,}}"),
    _t("figma-token", r"fig[do]r?_", rf"{_U}{{40}}"),
    _t("airtable-token", rf"pat{_A}{{14}}\.", rf"{_H}{{64}}"),
    _t("postman-key", r"PMAK-", rf"{_H}{{24}}-{_H}{{34}}"),
    _t("circleci-token", r"CCI(?:PAT|PRJ)_", rf"{_A}{{22}}_{_H}{{40}}"),
    _t("buildkite-token", r"bk[a-z]{2}_", rf"{_H}{{40}}"),
    _t("dropbox-token", r"sl\.[A-Za-z0-9_-]", rf"{_U}{{129,}}"),
    _t("mapbox-token", r"[sp]k\.eyJ", rf"{_U}{{40,}}\.{_U}{{20,}}"),
    _t("twitter-token", r"A{20}", r"[A-Za-z0-9%]{60,}"),
    _t("facebook-token", r"EAA[A-Z]", rf"{_A}{{100,}}"),
    _t("sourcegraph-token", r"sgp_", rf"(?:(?:{_H}{{16}}|local)_)?{_H}{{40}}"),
    _t("openshift-token", r"sha256~", rf"{_U}{{43}}"),
    _t("hubspot-token", r"pat-(?:na|eu)[0-9]-", _UUID),
    _t("contentful-token", r"CFPAT-", rf"{_U}{{43}}"),
    _t("infracost-key", r"ico-", rf"{_A}{{32}}"),
    _t("clojars-token", r"CLOJARS_", r"[a-z0-9]{60}"),
    _t("octopus-key", r"API-[0-9A-Z]", rf"{_N}{{25,}}"),
    _t("easypost-key", r"EZ[AT]K", rf"{_A}{{54}}"),
    _t("shippo-token", r"shippo_(?:live|test)_", rf"{_H}{{40}}"),
    _t("typeform-token", r"tfp_", rf"{_U}{{44,}}"),
    _t("frameio-token", r"fio-u-", rf"{_U}{{64}}"),
    _t("duffel-token", r"duffel_(?:live|test)_", rf"{_U}{{43}}"),
    _t("readme-key", r"rdme_", r"[a-z0-9]{70}"),
    _t("prefect-key", r"pn[ub]_", rf"{_A}{{36}}"),
    _t("scalingo-token", r"tk-us-", rf"{_U}{{48}}"),
    _t("harness-key", r"[ps]at\.[A-Za-z0-9_-]", rf"{_U}{{21}}\.{_H}{{24}}\.{_A}{{20}}"),
    _t("adafruit-key", r"aio_", rf"{_A}{{28}}"),
    _t("yandex-key", r"AQVN", rf"{_U}{{35,}}"),
)

# A credential's name, the mark after it, and a value with at least one digit in it. The name's start is
# checked in Python; the value ends before quotes, backslashes and the marks that end values.
_NAME = (
    r"(_auth|token|secret|passw(?:or)?d|passphrase|pwd|credentials?|key-data|auth|pass|sig"
    r"|(?:api[_-]?|access[_-]?|private[_-]?|secret[_-]?|account[_-]?|auth[_-]?)?key)"
)
_VALUE = r"[^\s\"'\\<>&;,)}\]|`]"
_MARK = r"(?:\\*[\"']?\]?\\*[ \t]{0,8}(?:=>|:=|[:=])[ \t]{0,8}(?:[bur]?\\*[\"'])?|>|[ \t]+)"
NAMED = rf"{_NAME}({_MARK})({_VALUE}*[0-9]{_VALUE}*)"

_REST = r"([^\s\"'\\<>&,)}\]|`]{8,})"
# Where a value stands tells what it is: one alternative each, with the value as its only group.
PLACES: tuple[tuple[str, str], ...] = (
    (
        "authorization",
        r"authorization\\*[\"']?[ \t]*(?:=>|[:=])[ \t]*(?:[bur]?\\*[\"'])?"
        r"(?:(?:bearer|basic|token|ssws|apikey|negotiate)[ \t]+)?([^\s\"'\\<>,;`]{8,})",
    ),
    ("authorization", r"(?:bearer|basic|ssws)[ \t]+([^\s\"'\\<>,;`]{12,})"),
    ("cookie", r"cookie\\*[\"']?[ \t]*[:=][ \t]*(?:[bur]?\\*[\"'])?([^\r\n\"'\\]{16,})"),
    ("auth", r"(?:\"auth\\*\"[ \t]*:[ \t]*\\*\"|_auth[ \t]*=[ \t]*)([A-Za-z0-9+/]{16,}=*)"),
    ("password", rf"sshpass[ \t]+-p[ \t]*[\"']?{_REST}"),
    ("password", rf"login[ \t]+[^\s]+[ \t]+password[ \t]+{_REST}"),
    ("password", rf"[ \t]-(?:u|-user)[ =]*[\"']?[A-Za-z0-9_.@-]+:{_REST}"),
    ("password", rf"mysql(?:dump|admin)?[ \t][^\n|;]*?[ \t]-p{_REST}"),
    (
        "value",
        r"name:[ \t]*[\"']?[A-Za-z0-9_]*(?:token|key|secret|password|passwd|passphrase)[\"']?[ \t]*\r?\n[ \t]*"
        r"value:[ \t]*[\"']?([^\s\"'\\<>]{8,})",
    ),
    (
        "signature",
        r"[?&](?:key|sig|signature|code|x-amz-signature|x-goog-signature|x-amz-security-token)="
        r"([^\s\"'\\<>&,)}\]|`]{16,})",
    ),
)

TRAILING = rb"[.:!?*]*\Z"
PLACEHOLDER = (
    rb"\$[A-Za-z_{(]|\{\{|<[A-Za-z]|\*{3}|\*+\Z|\[redacted|%[A-Za-z_]+%|x{4,}|\.{3}|your[_-]|example|placeholder"
    rb"|changeme|change[_-]me|redacted|null\Z|none\Z|true\Z|false\Z"
)
NOT_KEYS = (
    rb"(?:primary|foreign|sort|cache|public|partition|routing|object|idempotency|host|sha|hash|index|restore"
    rb"|cursor|map|dict|column|row|group|config)[_-]?\Z"
)
