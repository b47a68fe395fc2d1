"""The published shapes of credentials, as data. Sources: the vendors' own pages on token formats.

Every pattern is RE2 syntax on bytes (Latin-1). Lower bounds only: no vendor promises a length, and GitHub
says to assume none (both forms of `ghs_`: 36 letters and digits, or app id and a JWT of some 520).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Token:
    """One shape.

    Attributes:
        label: shown in the marker.
        pattern: RE2; a counted repetition never starts it, so that the automaton stays small.
        bounded: a prefix this short must begin a word.
    """

    label: str
    pattern: str
    bounded: bool = True


_U = r"[A-Za-z0-9_-]"
_A = r"[A-Za-z0-9]"
_B = r"[A-Za-z0-9+/]"
_H = r"[0-9a-f]"
_N = r"[0-9A-Z]"
_UUID = rf"{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}"


def _t(label: str, pattern: str, *, bounded: bool = True) -> Token:
    return Token(label, pattern, bounded)


TOKENS: tuple[Token, ...] = (
    _t("private-key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----", bounded=False),
    _t("url-password", r"://[^\s/:@\"'<>?#\\]*:[^\s/@\"'<>\\]+@", bounded=False),
    _t("github-token", r"gh[pousr]_[A-Za-z0-9._-]{36,}", bounded=False),
    _t("github-token", r"github_pat_[A-Za-z0-9_]{36,}", bounded=False),
    _t("jwt", rf"eyJ{_U}{{8,}}\.eyJ{_U}{{8,}}(?:\.{_U}{{8,}}|\.)", bounded=False),
    _t("gitlab-token", r"gl(?:pat|ptt|dt|rt|soat|ft|oas|rtr|imt|agent|ffct)-[A-Za-z0-9_.-]{20,}", bounded=False),
    _t("gitlab-token", rf"glcbt-{_U}{{20,}}", bounded=False),
    _t("bitbucket-token", rf"ATBB{_A}{{28,}}"),
    _t("atlassian-token", r"ATATT3[A-Za-z0-9_=-]{60,}"),
    _t("aws-key-id", r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}"),
    _t("aws-token", r"(?:ABSK|IQoJb3JpZ2lu)[A-Za-z0-9+/=]{100,}"),
    _t("google-key", rf"AIza{_U}{{35,}}"),
    _t("google-token", rf"ya29\.{_U}{{30,}}"),
    _t("google-secret", rf"GOCSPX-{_U}{{28,}}"),
    _t("google-refresh-token", rf"1//0{_U}{{40,}}"),
    _t("azure-client-secret", r"Q~[A-Za-z0-9._~-]{30,}", bounded=False),
    _t("digitalocean-token", rf"do[opr]_v1_{_H}{{60,}}", bounded=False),
    _t("heroku-key", rf"HRKU-AA{_U}{{50,}}"),
    _t("cloudflare-key", rf"v1\.0-{_H}{{24}}-{_H}{{100,}}"),
    _t("flyio-token", r"fm[12]a?r?_[A-Za-z0-9+/=,_-]{60,}"),
    _t("netlify-token", rf"nf[puoc]_{_A}{{36,}}"),
    _t("alibaba-key-id", rf"LTAI{_A}{{16,}}"),
    _t("model-key", rf"sk-(?:proj|admin|svcacct|None)-{_U}{{40,}}"),
    _t("model-key", rf"sk-ant-[a-z0-9]+-{_U}{{40,}}"),
    _t("model-key", rf"sk-or-v1-{_H}{{40,}}"),
    _t("model-key", rf"sk-{_A}{{20}}T3BlbkFJ{_A}{{20}}"),
    _t("model-key", rf"sk-{_H}{{32,}}"),
    _t("model-key", rf"gsk_{_A}{{40,}}"),
    _t("model-key", rf"xai-{_A}{{60,}}"),
    _t("model-key", rf"pplx-{_A}{{40,}}"),
    _t("model-key", rf"r8_{_A}{{36,}}"),
    _t("model-key", r"hf_[A-Za-z]{34,}"),
    _t("model-key", rf"tgp_v1_{_U}{{40,}}"),
    _t("slack-token", r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{20,}", bounded=False),
    _t("slack-token", r"xapp-[0-9]-[A-Za-z0-9-]{40,}", bounded=False),
    _t("webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{30,}", bounded=False),
    _t("webhook", rf"discord(?:app)?\.com/api/webhooks/[0-9]+/{_U}{{40,}}", bounded=False),
    _t("webhook", r"webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{60,}", bounded=False),
    _t("discord-token", rf"\.{_U}{{6}}\.{_U}{{27,}}", bounded=False),
    _t("telegram-token", rf":AA{_U}{{33}}", bounded=False),
    _t("twilio-key", rf"(?:SK|AC){_H}{{32}}"),
    _t("sendgrid-key", rf"SG\.{_U}{{16,}}\.{_U}{{16,}}"),
    _t("mailchimp-key", rf"{_H}{{32}}-us[0-9]{{1,2}}"),
    _t("brevo-key", rf"xkeysib-{_H}{{60,}}-{_A}{{16}}"),
    _t("stripe-key", rf"[rsp]k_(?:live|test)_{_A}{{20,}}"),
    _t("stripe-key", r"whsec_[A-Za-z0-9+/=]{32,}"),
    _t("square-token", rf"sq0(?:atp|csp|idp)-{_U}{{22,}}"),
    _t("shopify-token", rf"shp(?:at|ca|pa|ss)_{_H}{{32}}"),
    _t("plaid-token", rf"access-(?:production|development|sandbox)-{_UUID}"),
    _t("npm-token", rf"npm_{_A}{{36}}"),
    _t("pypi-token", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _t("rubygems-key", rf"rubygems_{_H}{{48}}"),
    _t("nuget-key", r"oy2[a-z0-9]{43}"),
    _t("crates-token", rf"cio{_A}{{32}}"),
    _t("docker-token", rf"dckr_[po]at_{_U}{{27,}}"),
    _t("jfrog-key", rf"AKCp{_A}{{60,}}"),
    _t("jfrog-key", rf"cmVmdGtu{_A}{{50,}}"),
    _t("sonar-token", rf"sq[upa]_{_H}{{40}}"),
    _t("vault-token", rf"hv[sbr]\.{_U}{{80,}}"),
    _t("terraform-token", rf"\.atlasv1\.{_U}{{60,}}", bounded=False),
    _t("pulumi-token", rf"pul-{_H}{{40}}"),
    _t("databricks-token", rf"dapi{_H}{{32}}(?:-[0-9])?"),
    _t("grafana-token", r"gl(?:sa|c)_[A-Za-z0-9+/=_]{32,}"),
    _t("newrelic-key", rf"NRAK-{_N}{{27}}"),
    _t("sentry-token", r"sntry[su]_[A-Za-z0-9+/=_-]{50,}"),
    _t("dynatrace-token", rf"dt0[a-z][0-9]{{2}}\.{_N}{{24}}\.{_N}{{60,}}"),
    _t("doppler-token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    _t("planetscale-token", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{32,}"),
    _t("supabase-token", rf"sb[ps]_{_H}{{40}}"),
    _t("tailscale-key", r"tskey-[a-z]+-[A-Za-z0-9-]{20,}"),
    _t("onepassword-token", r"ops_eyJ[A-Za-z0-9+/=_-]{100,}"),
    _t("onepassword-secret-key", rf"A3-{_N}{{6}}-{_N}{{6}}-{_N}{{5}}-{_N}{{5}}-{_N}{{5}}-{_N}{{5}}"),
    _t("onepassword-secret-key", rf"A3-{_N}{{6}}-{_N}{{11}}-{_N}{{5}}-{_N}{{5}}-{_N}{{5}}"),
    _t("age-key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _t("linear-key", rf"lin_(?:api|oauth)_{_A}{{40}}"),
    _t("notion-token", rf"(?:ntn|secret)_{_A}{{43,}}"),
    _t("figma-token", rf"fig[do]r?_{_U}{{40}}"),
    _t("airtable-token", rf"pat{_A}{{14}}\.{_H}{{64}}"),
    _t("postman-key", rf"PMAK-{_H}{{24}}-{_H}{{34}}"),
    _t("circleci-token", rf"CCI(?:PAT|PRJ)_{_A}{{22}}_{_H}{{40}}"),
    _t("buildkite-token", rf"bk[a-z]{{2}}_{_H}{{40}}"),
    _t("dropbox-token", rf"sl\.{_U}{{130,}}"),
    _t("mapbox-token", rf"[sp]k\.eyJ1Ijoi{_U}{{40,}}\.{_U}{{20,}}"),
    _t("twitter-token", r"A{20}[A-Za-z0-9%]{60,}"),
    _t("facebook-token", rf"EAA[A-Z]{_A}{{100,}}"),
    _t("sourcegraph-token", rf"sgp_(?:{_H}{{16}}|local)_{_H}{{40}}"),
    _t("sourcegraph-token", rf"sgp_{_H}{{40}}"),
    _t("openshift-token", rf"sha256~{_U}{{43}}"),
    _t("hubspot-token", rf"pat-(?:na|eu)[0-9]-{_UUID}"),
    _t("contentful-token", rf"CFPAT-{_U}{{43}}"),
    _t("infracost-key", rf"ico-{_A}{{32}}"),
    _t("clojars-token", r"CLOJARS_[a-z0-9]{60}"),
    _t("octopus-key", rf"API-{_N}{{26,}}"),
    _t("easypost-key", rf"EZ[AT]K{_A}{{54}}"),
    _t("shippo-token", rf"shippo_(?:live|test)_{_H}{{40}}"),
    _t("typeform-token", rf"tfp_{_U}{{44,}}"),
    _t("frameio-token", rf"fio-u-{_U}{{64}}"),
    _t("duffel-token", rf"duffel_(?:live|test)_{_U}{{43}}"),
    _t("readme-key", r"rdme_[a-z0-9]{70}"),
    _t("prefect-key", rf"pn[ub]_{_A}{{36}}"),
    _t("scalingo-token", rf"tk-us-{_U}{{48}}"),
    _t("harness-key", rf"(?:pat|sat)\.{_U}{{22}}\.{_H}{{24}}\.{_A}{{20}}"),
    _t("adafruit-key", rf"aio_{_A}{{28}}"),
    _t("yandex-key", rf"AQVN{_U}{{35,}}"),
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
