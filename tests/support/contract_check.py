#!/usr/bin/env python3
# ruff: noqa
# fmt: off
"""Check recorded GitHub REST traffic against GitHub's own OpenAPI description.

    contract_check.py RECORDS.jsonl [--openapi FILE] [--json] [--no-response]
    contract_check.py --selftest

RECORDS.jsonl holds one JSON object a line:

    method    "GET", "POST", ...
    path      "/repos/o/r/pulls/1" (a query string or a full URL is accepted)
    query     object (values: string, number, or list) or a query string; optional
    body      request body: object, list, JSON text, or null; optional
    status    integer response status
    response  response body: object, list, text, or null
    headers   request headers, optional (enables the media-type, version and
              user-agent checks)
    response_headers  optional (enables the redirect and rate-limit checks)

Every record is checked for: does this path exist, with this method; do the
path, query and body fit the schema; do they fit the limits that GitHub states
only in prose (LIMITS below); is the status one that GitHub documents; does the
response body fit the schema for that status.

The description is the npm package @octokit/openapi (api.github.com.json). It is
taken from --openapi, else $GITHUB_OPENAPI_JSON, else a cache under the system's
temporary folder, else downloaded there with `npm pack` (28 MB).

Needs: jsonschema >= 4.18 (with referencing). Exit status: 0 no errors (warnings
may be printed), 1 at least one error, 2 the input could not be used.
"""
from __future__ import annotations

import argparse
import base64
import binascii
import collections
import datetime
import functools
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
from pathlib import Path

PACKAGE = "@octokit/openapi@23.0.2"
MEMBER = "package/generated/api.github.com.json"
BODY_MAX = 65536          # issue, pull request, review and comment bodies (characters)
PER_PAGE_MAX = 100
GENERIC = {301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 406, 409, 410, 413,
           415, 422, 429, 451, 500, 502, 503, 504}
API_VERSIONS = {"2022-11-28", "2026-03-10"}
SHA = re.compile(r"^[0-9a-f]{40}$")

E, W = "error", "warn"


# ---------------------------------------------------------------- description
def locate(arg: str | None) -> Path:
    for cand in (arg, os.environ.get("GITHUB_OPENAPI_JSON")):
        if cand:
            path = Path(cand)
            if not path.is_file():
                sys.exit(f"contract_check: no such file: {cand}")
            return path
    cache = Path(tempfile.gettempdir()) / "contract-check-openapi"
    out = cache / "api.github.com.json"
    if out.is_file():
        return out
    cache.mkdir(parents=True, exist_ok=True)
    print(f"contract_check: downloading {PACKAGE} ...", file=sys.stderr)
    try:
        done = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=cache, check=True,
                              capture_output=True, text=True, timeout=540)
    except (OSError, subprocess.SubprocessError) as exc:
        print(f"contract_check: npm pack failed: {exc}; pass --openapi FILE", file=sys.stderr)
        raise SystemExit(2) from None
    tgz = cache / done.stdout.strip().splitlines()[-1]
    with tarfile.open(tgz) as tar:
        data = tar.extractfile(MEMBER).read()
    tmp = out.with_suffix(".part")
    tmp.write_bytes(data)
    tmp.replace(out)
    tgz.unlink()
    return out


def to_json_schema(node):
    """OpenAPI 3.0 schema -> JSON Schema draft 2020-12 (nullable only; the rest is a subset)."""
    if isinstance(node, list):
        return [to_json_schema(x) for x in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for key, value in node.items():
        if key in ("example", "examples", "default", "description", "title", "deprecated",
                   "readOnly", "writeOnly", "externalDocs", "xml", "discriminator",
                   "nullable") or (isinstance(key, str) and key.startswith("x-")):
            continue
        if key == "properties" and isinstance(value, dict):
            out[key] = {k: to_json_schema(v) for k, v in value.items()}
        elif key in ("enum", "required", "const"):
            out[key] = value
        else:
            out[key] = to_json_schema(value)
    if node.get("nullable") is True:
        if "enum" in out and None not in out["enum"]:
            out["enum"] = list(out["enum"]) + [None]
        if isinstance(out.get("type"), str):
            out["type"] = [out["type"], "null"]
        elif "type" not in out and any(k in out for k in ("$ref", "allOf", "anyOf", "oneOf")):
            out = {"anyOf": [out, {"type": "null"}]}
    return out


def _date_time(value) -> bool:
    """RFC 3339, as GitHub writes times; raises ValueError for what is none."""
    if isinstance(value, str):
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", value):
            raise ValueError(value)
        datetime.datetime.fromisoformat(re.sub(r"\.\d+", "", value).replace("Z", "+00:00"))
    return True


class Contract:
    def __init__(self, path: Path):
        from jsonschema import Draft202012Validator, FormatChecker
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT202012

        self.raw = json.loads(path.read_text(encoding="utf-8"))
        doc = {"components": {"schemas": {
            k: to_json_schema(v) for k, v in self.raw["components"]["schemas"].items()}}}
        self.registry = Registry().with_resource(
            "urn:github", Resource(contents=doc, specification=DRAFT202012))
        self.cls = Draft202012Validator
        self.formats = FormatChecker(formats=["date"])
        self.formats.checks("date-time", ValueError)(_date_time)    # jsonschema's own needs another package
        self.cache: dict[str, object] = {}
        self.routes = []
        for template, item in self.raw["paths"].items():
            if template.endswith("/compare/{base}...{head}"):
                continue                            # deprecated twin of /compare/{basehead}
            for method, op in item.items():
                if method not in ("get", "put", "post", "patch", "delete", "head"):
                    continue
                params = [self.deref(p) for p in item.get("parameters", []) + op.get("parameters", [])]
                multi = {p["name"] for p in params if p["in"] == "path"
                         and (p.get("x-multi-segment") or p.get("schema", {}).get("x-multi-segment"))}
                rx, literal = [], 0
                for part in re.split(r"(\{[^}]+\})", template):
                    if part.startswith("{"):
                        name = part[1:-1]
                        safe = re.sub(r"\W", "_", name)
                        rx.append(f"(?P<{safe}>.+)" if name in multi else f"(?P<{safe}>[^/]+)")
                    else:
                        rx.append(re.escape(part))
                        literal += len(part)
                self.routes.append((literal, bool(multi), re.compile("^" + "".join(rx) + "$"),
                                    method.upper(), template, op, params))
        self.routes.sort(key=lambda r: (-r[0], r[1]))

    def deref(self, node):
        while isinstance(node, dict) and "$ref" in node:
            cur = self.raw
            for part in node["$ref"].lstrip("#/").split("/"):
                cur = cur[part.replace("~1", "/").replace("~0", "~")]
            node = cur
        return node

    def validator(self, key: str, schema):
        if key not in self.cache:
            text = json.dumps(to_json_schema(schema)).replace('"#/components/', '"urn:github#/components/')
            # parse GitHub's own relative refs against the one document
            self.cache[key] = self.cls(json.loads(text), registry=self.registry,
                                       format_checker=self.formats)
        return self.cache[key]

    def tolerated(self, method, template, status, media):
        """Problems that GitHub's own example of this response has: not held against a record."""
        key = f"{method} {template} {status} tolerated"
        if key not in self.cache:
            entry = media["application/json"]
            v = self.validator(f"{method} {template} {status}", entry["schema"])
            found = set()
            for example in (entry.get("examples") or {}).values():
                value = self.deref(example).get("value")
                if value is not None:
                    found.update(schema_problems(v, value))
            self.cache[key] = frozenset(found)
        return self.cache[key]

    def match(self, method: str, path: str):
        """-> (route | None, methods that this path does have)"""
        others = []
        for route in self.routes:
            hit = route[2].match(path)
            if hit:
                if route[3] == method or (method == "HEAD" and route[3] == "GET"):
                    return route, hit, others
                others.append(route[3])
        return None, None, sorted(set(others))


# ---------------------------------------------------------------- one record
def brief(value, width=150) -> str:
    text = str(value).replace("\n", "\\n")
    return text if len(text) <= width else text[: width - 3] + "..."


def star(where):
    return re.sub(r"(^|/)\d+(?=/|$)", r"\1*", where)


def schema_problems(validator, value):
    """One (where, kind, text) for each error; where has list indexes as '*'."""
    for err in validator.iter_errors(value):
        where = star("/".join(map(str, err.absolute_path)) or ".")
        if err.validator == "required":
            name = re.match(r"'([^']+)'", err.message)
            yield where, "required", name.group(1) if name else err.message
        elif err.validator in ("oneOf", "anyOf") and err.context:
            best = collections.Counter(brief(c.message, 60) for c in err.context).most_common(3)
            yield where, err.validator, (f"fits none of {len(err.validator_value)} alternatives: "
                                         + "; ".join(m for m, _ in best))
        elif err.validator in ("maxItems", "maxLength", "minItems", "minLength"):
            yield where, err.validator, f"{len(err.instance)} long; {err.validator} is {err.validator_value}"
        else:
            yield where, err.validator, brief(err.message)


def schema_errors(validator, value, tolerated=frozenset()):
    """Fold the many errors of one value into few readable (severity, where, message) rows."""
    counts = collections.Counter(schema_problems(validator, value))
    missing, rows = collections.OrderedDict(), []
    for (where, kind, text), n in counts.items():
        sev = W if (where, kind, text) in tolerated else E
        if kind == "required":
            missing.setdefault((sev, where), []).append(text)
        else:
            rows.append((sev, where, text + (f"  [x{n}]" if n > 1 else "")))
    for (sev, where), names in missing.items():
        rows.append((sev, where, f"missing required: {', '.join(names[:6])}"
                     + (f" (+{len(names) - 6})" if len(names) > 6 else "")
                     + (" (GitHub's own example lacks it too)" if sev == W else "")))
    return rows


def parse_body(raw):
    if isinstance(raw, (bytes, bytearray)):
        raw = raw.decode("utf-8", "replace")
    if isinstance(raw, str):
        stripped = raw.strip()
        if stripped[:1] in "{[" and stripped:
            try:
                return json.loads(raw)
            except ValueError:
                return raw
    return raw


def b64ok(text) -> bool:
    try:
        base64.b64decode(re.sub(r"\s", "", text), validate=True)
        return True
    except (binascii.Error, ValueError, TypeError):
        return False


def path_hygiene(raw_path: str):
    """Problems of the path as sent, whichever operation it names."""
    out = []
    decoded, previous, rounds = raw_path, None, 0
    while decoded != previous and rounds < 4:
        previous, decoded = decoded, urllib.parse.unquote(decoded)
        rounds += 1
    if re.search(r"%25[0-9a-fA-F]{2}", raw_path):
        out.append((E, "double percent-encoding in the path"))
    if any(seg in (".", "..") for seg in decoded.split("/")):
        out.append((E, "'.' or '..' segment in the path (decoded)"))
    if "\\" in decoded:
        out.append((W, "backslash in the path"))
    if re.search(r"[\x00-\x1f\x7f]", decoded):
        out.append((E, "control character in the path"))
    if "//" in raw_path:
        out.append((E, "empty segment ('//') in the path"))
    if raw_path != "/" and raw_path.endswith("/"):
        out.append((E, "trailing slash: GitHub answers 404"))
    if re.search(r"[^A-Za-z0-9\-._~%!$&'()*+,;=:@/]", raw_path):
        out.append((W, "unencoded character in the path"))
    if "#" in raw_path:
        out.append((E, "fragment in the path"))
    return out


def ref_problem(ref: str) -> str | None:
    if ref.startswith("/") or ref.endswith("/") or "//" in ref:
        return "empty component"
    if ".." in ref or "@{" in ref or re.search(r"[\x00-\x20\x7f~^:?*\[\\]", ref) or ref.endswith("."):
        return "not a valid ref name (git check-ref-format)"
    if any(c.startswith(".") or c.endswith(".lock") for c in ref.split("/")):
        return "component starts with '.' or ends with '.lock'"
    return None


def prose_limits(method, template, body, query, values):
    """Rules GitHub states in text, not in the schema."""
    out = []
    obj = body if isinstance(body, dict) else {}
    if "per_page" in query:
        try:
            if not 1 <= int(query["per_page"][0]) <= PER_PAGE_MAX:
                out.append((E, "query/per_page", f"outside 1..{PER_PAGE_MAX} (GitHub clamps silently)"))
        except ValueError:
            pass
    if isinstance(obj.get("body"), str) and len(obj["body"]) > BODY_MAX:
        out.append((E, "body/body", f"{len(obj['body'])} characters; GitHub's maximum is {BODY_MAX}"))
    if template.endswith("/comments") and method == "POST" and "body" in obj and not str(obj["body"]).strip():
        out.append((E, "body/body", "blank body: 422"))
    if method == "POST" and template.endswith("/pulls"):
        if not obj.get("title") and "issue" not in obj:
            out.append((E, "body", "needs title or issue"))
        if obj.get("head") and obj.get("head") == obj.get("base"):
            out.append((E, "body", "head equals base: 422 'No commits between'"))
    if method == "POST" and template.endswith("/reviews"):
        if obj.get("event") in ("COMMENT", "REQUEST_CHANGES") and not obj.get("body") and not obj.get("comments"):
            out.append((E, "body", f"event {obj.get('event')} needs a body"))
        for i, c in enumerate(obj.get("comments") or []):
            if isinstance(c, dict):
                out += comment_anchor(c, f"body/comments/{i}", review=True)
    if method == "POST" and re.search(r"/pulls/\{pull_number\}/comments$", template):
        out += comment_anchor(obj, "body", review=False)
    if template.endswith("/check-runs") and method == "POST" or template.endswith("/check-runs/{check_run_id}") and method == "PATCH":
        if (obj.get("status") == "completed" or obj.get("completed_at")) and not obj.get("conclusion"):
            out.append((E, "body", "conclusion is required with status completed or completed_at"))
        if obj.get("conclusion") == "stale":
            out.append((E, "body/conclusion", "only GitHub can set stale"))
        if obj.get("status") in ("waiting", "requested", "pending"):
            out.append((E, "body/status", "only GitHub Actions itself can set this status"))
        output = obj.get("output") if isinstance(obj.get("output"), dict) else {}
        if method == "PATCH" and output and not output.get("title"):
            out.append((E, "body/output", "title is required (prose)"))
        for i, a in enumerate(output.get("annotations") or []):
            if not isinstance(a, dict):
                continue
            for key, limit in (("message", 64 * 1024), ("raw_details", 64 * 1024)):
                if isinstance(a.get(key), str) and len(a[key].encode()) > limit:
                    out.append((E, f"body/output/annotations/{i}/{key}", "over 64 KB"))
            if isinstance(a.get("title"), str) and len(a["title"]) > 255:
                out.append((E, f"body/output/annotations/{i}/title", "over 255 characters"))
            s, e = a.get("start_line"), a.get("end_line")
            if isinstance(s, int) and isinstance(e, int) and (s < 1 or e < s):
                out.append((E, f"body/output/annotations/{i}", "lines start at 1 and end_line >= start_line"))
            if s != e and ("start_column" in a or "end_column" in a):
                out.append((E, f"body/output/annotations/{i}", "columns only on one and the same line"))
    if template.endswith("/git/refs") and method == "POST":
        ref = obj.get("ref")
        if isinstance(ref, str):
            if not ref.startswith("refs/") or ref.count("/") < 2:
                out.append((E, "body/ref", "must start with refs/ and have two slashes"))
            elif ref_problem(ref):
                out.append((E, "body/ref", ref_problem(ref)))
        if isinstance(obj.get("sha"), str) and not SHA.match(obj["sha"]):
            out.append((E, "body/sha", "not 40 lower-case hex digits"))
    if "/git/ref" in template and "ref" in values:
        ref = urllib.parse.unquote(values["ref"])
        if ref.startswith("refs/"):
            out.append((E, "path/ref", "must be heads/... or tags/..., not refs/..."))
        elif method in ("PATCH", "DELETE") and ref_problem("refs/" + ref):
            out.append((E, "path/ref", ref_problem("refs/" + ref)))
    if template.endswith("/git/refs/{ref}") and method == "PATCH":
        if isinstance(obj.get("sha"), str) and not SHA.match(obj["sha"]):
            out.append((E, "body/sha", "not 40 lower-case hex digits"))
    if template.endswith("/git/blobs") and method == "POST":
        enc = obj.get("encoding", "utf-8")
        if enc not in ("utf-8", "base64"):
            out.append((E, "body/encoding", f"{enc!r} is not supported"))
        if enc == "base64" and isinstance(obj.get("content"), str) and not b64ok(obj["content"]):
            out.append((E, "body/content", "not valid base64"))
    if template.endswith("/git/trees") and method == "POST":
        entries = obj.get("tree") if isinstance(obj.get("tree"), list) else []
        for i, t in enumerate(entries):
            if not isinstance(t, dict):
                continue
            where = f"body/tree/{i}"
            if "sha" in t and "content" in t:
                out.append((E, where, "sha and content together is an error"))
            if "sha" not in t and "content" not in t:
                out.append((E, where, "needs sha or content"))
            p = t.get("path")
            if not isinstance(p, str) or not p:
                out.append((E, where, "path is missing"))
            elif p.startswith("/") or any(s in ("", ".", "..") or s.lower() == ".git" for s in p.split("/")):
                out.append((E, where, f"malformed path {brief(p, 60)!r}: 422"))
            if t.get("mode") == "040000" and t.get("type") not in (None, "tree"):
                out.append((E, where, "mode 040000 needs type tree"))
        if not obj.get("base_tree"):
            out.append((W, "body", "no base_tree: every file not listed is deleted by the commit"))
    if template.endswith("/contents/{path}") and method == "PUT" and isinstance(obj.get("content"), str):
        if not b64ok(obj["content"]):
            out.append((E, "body/content", "not valid base64"))
    return out


def comment_anchor(c, where, review):
    out = []
    if not review and "in_reply_to" in c:
        return out
    has_line, has_pos = "line" in c, "position" in c
    if not has_line and not has_pos and c.get("subject_type") != "file":
        out.append((E, where, "needs line (or position, or subject_type file): GitHub answers 422"))
    if has_pos:
        out.append((W, where, "position is closing down; use line and side"))
    if isinstance(c.get("start_line"), int) and isinstance(c.get("line"), int) and c["start_line"] >= c["line"]:
        out.append((E, where, "start_line must precede line"))
    if review and "subject_type" in c:
        out.append((W, where, "subject_type is not accepted inside a review's comments"))
    if isinstance(c.get("body"), str) and len(c["body"]) > BODY_MAX:
        out.append((E, where + "/body", f"over {BODY_MAX} characters"))
    return out


def lower(heads):
    if isinstance(heads, list):                     # [[name, value], ...]
        heads = {h[0]: h[1] for h in heads if isinstance(h, (list, tuple)) and len(h) == 2}
    return {str(k).lower(): v for k, v in heads.items()} if isinstance(heads, dict) else {}


def normal_query(raw):
    if raw is None:
        return {}
    if isinstance(raw, str):
        return urllib.parse.parse_qs(raw.lstrip("?"), keep_blank_values=True)
    out = {}
    if isinstance(raw, list):                       # [[key, value], ...]
        pairs = collections.OrderedDict()
        for item in raw:
            if isinstance(item, (list, tuple)) and len(item) == 2:
                pairs.setdefault(str(item[0]), []).append(item[1])
        raw = pairs
    for key, value in (raw.items() if isinstance(raw, dict) else ()):
        values = value if isinstance(value, list) else [value]
        out[key] = ["true" if v is True else "false" if v is False else str(v) for v in values]
    return out


def unknown_fields(contract, schema, value, where, depth=0):
    schema = contract.deref(schema)
    if depth > 6:
        return []
    if isinstance(value, list) and "items" in schema:
        out = []
        for item in value:
            out += unknown_fields(contract, schema["items"], item, where + "/*", depth + 1)
        return out
    if not isinstance(value, dict) or "properties" not in schema or schema.get("additionalProperties"):
        return []
    if any(k in schema for k in ("oneOf", "allOf")):
        return []
    out = []
    for key, sub in value.items():
        if key not in schema["properties"]:
            out.append((where, f"unknown field {brief(key, 40)!r}"))
        else:
            out += unknown_fields(contract, schema["properties"][key], sub, f"{where}/{key}", depth + 1)
    return out


def check(contract: Contract, rec: dict, with_response=True):
    """-> list of (severity, part, location, message)"""
    rows = []

    def add(sev, part, where, msg):
        rows.append((sev, part, where, msg))

    method, path = rec.get("method"), rec.get("path")
    if not isinstance(method, str) or not isinstance(path, str):
        add(E, "record", ".", "needs method and path strings")
        return None, rows
    if method != method.upper():
        add(E, "request", "method", f"{method!r} is not upper case")
        method = method.upper()
    parts = urllib.parse.urlsplit(path) if "://" in path else None
    if parts:
        if parts.username is not None or parts.password is not None:
            add(E, "request", "path", "userinfo in the URL")
        if parts.hostname != "api.github.com" and not rec.get("base_url"):
            add(W, "request", "path", f"host is {parts.hostname}")
        path, url_query = parts.path, parts.query
    else:
        path, _, url_query = path.partition("?")
    query = normal_query(rec.get("query"))
    for key, values in urllib.parse.parse_qs(url_query, keep_blank_values=True).items():
        query.setdefault(key, []).extend(v for v in values if v not in query.get(key, []))
    for sev, msg in path_hygiene(path):
        add(sev, "request", "path", msg)

    status = rec.get("status")
    numeric = re.match(r"^/repositories/\d+(?=/|$)", path)
    if numeric:
        add(W, "request", "path", "numeric-id form (GitHub's redirects and Link headers use it); read as /repos/o/r")
        path = "/repos/-/-" + path[numeric.end():]
    route, hit, others = contract.match(method, path)
    if route is None:
        if others:
            add(E, "request", "method", f"{method} is not an operation here (only {', '.join(others)})")
        elif path == "/graphql":
            add(W, "request", "path", "GraphQL is not part of the REST description; not checked")
            return None, rows
        else:
            add(E, "request", "path", "no such path in the description")
        if status is not None and not (isinstance(status, int) and status >= 400):
            add(E, "response", "status", f"answered {status}; GitHub answers 404 here")
        return None, rows
    _, _, _, _, template, op, params = route
    values = hit.groupdict()
    if op.get("deprecated"):
        add(W, "request", "path", "deprecated operation")

    # ---- path and query parameters
    for p in params:
        schema = contract.deref(p.get("schema", {}))
        name = p["name"]
        if p["in"] == "path":
            got = values.get(re.sub(r"\W", "_", name))
            if got is not None and schema.get("type") == "integer" and not re.fullmatch(r"\d{1,19}", urllib.parse.unquote(got)):
                add(E, "request", f"path/{name}", f"{brief(got, 40)!r} is not an integer")
        elif p["in"] == "query":
            if p.get("required") and name not in query:
                add(E, "request", f"query/{name}", "required")
            for got in query.get(name, []):
                kind = schema.get("type")
                if kind == "integer" and not re.fullmatch(r"-?\d+", got):
                    add(E, "request", f"query/{name}", f"{brief(got, 40)!r} is not an integer")
                if kind == "boolean" and got not in ("true", "false"):
                    add(E, "request", f"query/{name}", f"{brief(got, 40)!r} is not a boolean")
                if schema.get("enum") and got not in map(str, schema["enum"]):
                    add(E, "request", f"query/{name}", f"{brief(got, 40)!r} not in {schema['enum']}")
            if len(query.get(name, [])) > 1 and schema.get("type") != "array":
                add(E, "request", f"query/{name}", "given more than once")
    known = {p["name"] for p in params if p["in"] == "query"}
    for name in query:
        if name not in known and name + "[]" not in known:
            sev = E if name.lower() in ("_method", "access_token", "client_secret") else W
            add(sev, "request", f"query/{brief(name, 30)}", "not a parameter of this operation")

    # ---- request headers
    heads = lower(rec.get("headers"))
    if heads:
        if not heads.get("user-agent"):
            add(E, "request", "headers", "no User-Agent: GitHub answers 403")
        version = heads.get("x-github-api-version")
        if version is None:
            add(W, "request", "headers", "no X-GitHub-Api-Version")
        elif version not in API_VERSIONS:
            add(E, "request", "headers", f"API version {version!r} is unknown: 400")
        for name in ("x-http-method-override", "x-http-method", "x-method-override"):
            if name in heads:
                add(E, "request", "headers", f"{name} present")

    # ---- request body
    body = parse_body(rec.get("body"))
    request = contract.deref(op.get("requestBody") or {})
    content = request.get("content") or {}
    if body in (None, ""):
        if request.get("required"):
            add(E, "request", "body", "required")
    elif not content:
        if method in ("GET", "HEAD"):
            add(E, "request", "body", "this operation takes no body")
        else:
            add(W, "request", "body", "the description has no body here")
    elif "application/json" in content:
        schema = content["application/json"]["schema"]
        if isinstance(body, list) and template.endswith("/issues/{issue_number}/labels"):
            add(W, "request", "body", "bare array: allowed by prose only; GitHub recommends {\"labels\": [...]}")
            body = {"labels": body}
        if isinstance(body, str) and contract.deref(schema).get("type") != "string":
            add(E, "request", "body", "not JSON: 400 'Problems parsing JSON'")
        else:
            v = contract.validator(f"{method} {template} body", schema)
            for sev, where, msg in schema_errors(v, body):
                add(sev, "request", f"body/{where}", msg)
            for where, msg in unknown_fields(contract, schema, body, "body"):
                add(W, "request", where, msg)
    for sev, where, msg in prose_limits(method, template, body, query, values):
        add(sev, "request", where, msg)

    if not with_response:
        return template, rows

    # ---- response
    if not isinstance(status, int):
        add(E, "response", "status", f"{status!r} is not an integer")
        return template, rows
    response = parse_body(rec.get("response"))
    declared = op["responses"].get(str(status))
    rheads = lower(rec.get("response_headers"))
    if rheads:
        if status in (301, 302, 307, 308) and "location" not in rheads:
            add(E, "response", "headers", f"{status} without Location")
        if status == 429 and "retry-after" not in rheads and rheads.get("x-ratelimit-remaining") != "0":
            add(W, "response", "headers", "429 without Retry-After or x-ratelimit-remaining: 0")
    if declared is None:
        if status in GENERIC:
            add(W, "response", "status", f"{status} is not listed for this operation (generic statuses are allowed)")
            if status >= 400:
                generic_error(add, status, response)
        else:
            add(E, "response", "status", f"{status} is not a response of this operation (has {', '.join(op['responses'])})")
        return template, rows
    declared = contract.deref(declared)
    accept = str(heads.get("accept", ""))
    media = declared.get("content") or {}
    if status in (204, 304) or not media:
        if response not in (None, "", {}) and status in (204, 205, 304):
            add(E, "response", "body", f"{status} carries no body")
        return template, rows
    if status == 200 and re.search(r"\b(diff|patch|raw|sha|html)\b", accept) and isinstance(response, str):
        return template, rows                       # a media type that answers text
    if isinstance(response, str) and "application/json" in media:
        schema = contract.deref(media["application/json"].get("schema", {}))
        if schema.get("type") != "string":
            if accept and "json" not in accept:
                return template, rows
            add(E, "response", "body", "text where JSON is described"
                + ("" if accept else " (record headers.accept if a diff/raw media type was asked for)"))
            return template, rows
    if "application/json" in media and "schema" in media["application/json"]:
        if response is None:
            add(E, "response", "body", "empty where JSON is described")
            return template, rows
        v = contract.validator(f"{method} {template} {status}", media["application/json"]["schema"])
        for sev, where, msg in schema_errors(v, response, contract.tolerated(method, template, status, media)):
            add(sev, "response", where, msg)
        if status >= 400:
            generic_error(add, status, response)
    return template, rows


def generic_error(add, status, response):
    if not isinstance(response, dict) or not isinstance(response.get("message"), str):
        add(E, "response", "body", f"a {status} body is an object with a string 'message'")
    elif "documentation_url" not in response:
        add(W, "response", "body", "error body without documentation_url")


# ---------------------------------------------------------------- for tests
@functools.cache
def _contract(path: Path) -> Contract:
    return Contract(path)


def unavailable() -> str | None:
    """Why the description cannot be had here, as a sentence, or None. Downloads it (28 MB) at most once."""
    try:
        locate(None)
    except SystemExit as exc:
        return (f"contract check left out: GitHub's API description needs npm ({PACKAGE}) or $GITHUB_OPENAPI_JSON"
                + (f"; {exc.code}" if isinstance(exc.code, str) else ""))
    return None


def check_records(records, openapi: str | None = None, *, warnings: bool = False) -> list[str]:
    """Errors (or `warnings`) in recorded exchanges, one line each; an empty list is a pass.

    A record that says `injected` had its answer put in by a test: its request alone is checked.

    Raises:
        SystemExit: the description cannot be had (see `unavailable`).
    """
    contract = _contract(locate(openapi))
    out = []
    for number, rec in enumerate(records, 1):
        _, rows = check(contract, json.loads(json.dumps(rec, default=str)), not rec.get("injected"))
        out += [f"{number}: {rec.get('method')} {rec.get('path')} {rec.get('status')}: {part} {where}: {msg}"
                for sev, part, where, msg in rows if (sev == W) == warnings]
    return out


# ---------------------------------------------------------------- output
def load(path):
    stream = sys.stdin if path == "-" else open(path, encoding="utf-8")
    with stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                try:
                    rec = json.loads(line)
                    if not isinstance(rec, dict):
                        raise ValueError("not an object")
                    yield number, rec
                except ValueError as exc:
                    yield number, {"_bad": str(exc)}


def table(rows):
    heads = ("line", "sev", "operation", "part", "where", "problem")
    rows = [tuple(brief(c, w) for c, w in zip(r, (6, 5, 62, 8, 44, 150))) for r in rows]
    widths = [max(len(h), *(len(r[i]) for r in rows)) if rows else len(h) for i, h in enumerate(heads)]
    fmt = "  ".join(f"{{:<{w}}}" for w in widths)
    print(fmt.format(*heads))
    print("  ".join("-" * w for w in widths))
    for r in rows:
        print(fmt.format(*r).rstrip())


def run(args) -> int:
    contract = Contract(locate(args.openapi))
    rows, ops, total, bad = [], collections.Counter(), 0, set()
    for number, rec in load(args.records):
        total += 1
        if "_bad" in rec:
            rows.append((number, E, "-", "record", ".", rec["_bad"]))
            bad.add(number)
            continue
        template, found = check(contract, rec, not args.no_response)
        name = f"{str(rec.get('method')).upper()} {template or rec.get('path')}"
        ops[name] += 1
        for sev, part, where, msg in found:
            if sev == E:
                bad.add(number)
            if sev == E or not args.errors_only:
                rows.append((number, sev, name, part, where, msg))
    errors = sum(r[1] == E for r in rows)
    if args.json:
        keys = ("line", "severity", "operation", "part", "where", "problem")
        print(json.dumps({"records": total, "records_with_errors": len(bad),
                          "violations": [dict(zip(keys, r)) for r in rows]}, indent=1))
    else:
        if rows:
            table(rows)
        print(f"\n{total} records over {len(ops)} operations: {len(bad)} with errors, "
              f"{errors} errors, {len(rows) - errors} warnings")
    return 1 if errors else 0


# ---------------------------------------------------------------- self-test
def selftest(args) -> int:
    contract = Contract(locate(args.openapi))
    head = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
    err422 = {"message": "Validation Failed", "documentation_url": "https://docs.github.com/rest", "status": "422",
              "errors": [{"resource": "PullRequestReviewComment", "code": "custom",
                          "field": "pull_request_review_thread.line",
                          "message": "pull_request_review_thread.line must be part of the diff"}]}
    ref_ok = {"ref": "refs/heads/agent/x", "node_id": "R", "url": "https://api.github.com/x",
              "object": {"type": "commit", "sha": head, "url": "https://api.github.com/y"}}
    # (name, expects an error?, text that must appear in a row or "", record)
    cases = [
        ("create ref", 0, "", dict(method="POST", path="/repos/o/r/git/refs", body={"ref": "refs/heads/agent/x", "sha": head}, status=201, response=ref_ok)),
        ("update nested ref", 0, "", dict(method="PATCH", path="/repos/o/r/git/refs/heads/agent/x/y", body={"sha": head, "force": False}, status=200, response=ref_ok)),
        ("blob", 0, "", dict(method="POST", path="/repos/o/r/git/blobs", body='{"content":"aGk=","encoding":"base64"}', status=201, response={"url": "u", "sha": "s"})),
        ("comment refused", 0, "", dict(method="POST", path="/repos/o/r/pulls/1/comments", body={"body": "b", "commit_id": head, "path": "a", "line": 9, "side": "RIGHT"}, status=422, response=err422)),
        ("log redirect", 0, "", dict(method="GET", path="/repos/o/r/actions/jobs/7/logs", status=302, response=None, response_headers={"Location": "https://x.invalid/"})),
        ("diff media type", 0, "", dict(method="GET", path="/repos/o/r/pulls/1", headers={"Accept": "application/vnd.github.diff", "User-Agent": "t", "X-GitHub-Api-Version": "2022-11-28"}, status=200, response="diff --git a/x b/x\n")),
        ("labels as object", 0, "", dict(method="POST", path="/repos/o/r/issues/1/labels", body={"labels": ["bug"]}, status=404, response={"message": "Not Found", "documentation_url": "d"})),
        ("labels as array", 0, "bare array", dict(method="POST", path="/repos/o/r/issues/1/labels", body=["bug"], status=404, response={"message": "Not Found", "documentation_url": "d"})),
        ("generic 401", 0, "not listed", dict(method="GET", path="/repos/o/r/pulls/1/files", query={"per_page": 100, "page": 2}, status=401, response={"documentation_url": "d", "message": "Bad credentials", "status": "401"})),
        ("compare basehead", 0, "", dict(method="GET", path="/repos/o/r/compare/main...feature/x", status=404, response={"message": "Not Found", "documentation_url": "d"})),
        ("contents nested", 0, "", dict(method="GET", path="/repos/o/r/contents/src/a/b.py?ref=main", status=404, response={"message": "Not Found", "documentation_url": "d"})),
        ("unknown path", 1, "no such path", dict(method="GET", path="/repos/o/r/pull/1", status=200, response={})),
        ("wrong method", 1, "is not an operation here", dict(method="PUT", path="/repos/o/r/issues/1/comments", status=200, body={"body": "x"}, response={})),
        ("missing body field", 1, "missing required: commit_id", dict(method="POST", path="/repos/o/r/pulls/1/comments", body={"body": "b", "path": "a", "line": 1}, status=422, response=err422)),
        ("no anchor", 1, "needs line", dict(method="POST", path="/repos/o/r/pulls/1/comments", body={"body": "b", "path": "a", "commit_id": head}, status=422, response=err422)),
        ("bad enum", 1, "is not one of", dict(method="POST", path="/repos/o/r/pulls/1/reviews", body={"event": "APPROVED", "body": "x"}, status=422, response={"message": "m", "documentation_url": "d", "errors": ["x"]})),
        ("too long", 1, "maximum is 65536", dict(method="POST", path="/repos/o/r/issues/1/comments", body={"body": "x" * 65537}, status=422, response=err422)),
        ("51 annotations", 1, "51 long; maxItems is 50", dict(method="PATCH", path="/repos/o/r/check-runs/1", body={"status": "in_progress", "output": {"title": "t", "summary": "s", "annotations": [{"path": "a", "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "m"}] * 51}}, status=422, response=err422)),
        ("no conclusion", 1, "conclusion is required", dict(method="POST", path="/repos/o/r/check-runs", body={"name": "n", "head_sha": head, "status": "completed"}, status=422, response=err422)),
        ("short ref", 1, "two slashes", dict(method="POST", path="/repos/o/r/git/refs", body={"ref": "heads/x", "sha": head}, status=422, response=err422)),
        ("refs/ in path", 1, "heads/... or tags", dict(method="PATCH", path="/repos/o/r/git/refs/refs/heads/x", body={"sha": head}, status=422, response=err422)),
        ("dot-dot path", 1, "'..' segment", dict(method="GET", path="/repos/o/r/contents/a/%2e%2e/%2e%2e/x", status=404, response={"message": "Not Found", "documentation_url": "d"})),
        ("double encoding", 1, "double percent", dict(method="GET", path="/repos/o/r/git/ref/heads%252fx", status=404, response={"message": "Not Found", "documentation_url": "d"})),
        ("response misses fields", 1, "missing required", dict(method="POST", path="/repos/o/r/issues/1/comments", body={"body": "x"}, status=201, response={"id": 1, "body": "x"})),
        ("undeclared 2xx", 1, "is not a response", dict(method="POST", path="/repos/o/r/issues/1/comments", body={"body": "x"}, status=200, response={})),
        ("error without message", 1, "string 'message'", dict(method="GET", path="/repos/o/r/pulls/1", status=404, response={"error": "nope"})),
        ("method override", 1, "override", dict(method="POST", path="/repos/o/r/issues/1/comments", headers={"User-Agent": "t", "X-GitHub-Api-Version": "2022-11-28", "X-HTTP-Method-Override": "DELETE"}, body={"body": "x"}, status=403, response={"message": "m", "documentation_url": "d"})),
        ("per_page 1000", 1, "outside 1..100", dict(method="GET", path="/repos/o/r/pulls/1/files?per_page=1000", status=200, response=[])),
        ("bad tree path", 1, "malformed path", dict(method="POST", path="/repos/o/r/git/trees", body={"base_tree": head, "tree": [{"path": "../x", "mode": "100644", "type": "blob", "content": "c"}]}, status=422, response=err422)),
        ("numeric id", 0, "numeric-id", dict(method="GET", path="/repositories/12/issues?page=2", status=200, response=[])),
        ("graphql", 0, "GraphQL", dict(method="POST", path="/graphql", body={"query": "q"}, status=403, response={"message": "m"})),
    ]
    failed = 0
    for name, want, text, rec in cases:
        _, rows = check(contract, rec)
        got = any(r[0] == E for r in rows)
        seen = not text or any(text in r[3] for r in rows)
        ok = got == bool(want) and seen
        failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {name}")
        if not ok:
            for r in rows:
                print("      ", r)
    # GitHub's own response examples must mostly pass: how far the description agrees with itself
    agree = disagree = 0
    worst = []
    for _, _, _, method, template, op, _ in contract.routes:
        if not re.match(r"^/repos/\{owner\}/\{repo\}(/(pulls|issues|git|check-|actions/(runs|jobs)|contents|compare|commits|collaborators|labels)|$)", template):
            continue
        for status, resp in op["responses"].items():
            media = (contract.deref(resp).get("content") or {}).get("application/json") or {}
            for example in (media.get("examples") or {}).values():
                value = contract.deref(example).get("value")
                if value is None or "schema" not in media:
                    continue
                errs = schema_errors(contract.validator(f"{method} {template} {status}", media["schema"]), value)
                agree += not errs
                disagree += bool(errs)
                if errs:
                    worst.append(f"{method} {template} {status}: {errs[0][1]}: {brief(errs[0][2], 70)}")
    print(f"\nGitHub's own examples on the repository operations: {agree} fit the schema, {disagree} do not")
    for line in worst[:12]:
        print("   ", line)
    print(f"\n{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main(argv=None) -> int:
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("records", nargs="?", help="JSON-lines file, or - for standard input")
    ap.add_argument("--openapi", help="api.github.com.json of @octokit/openapi")
    ap.add_argument("--json", action="store_true", help="print JSON instead of the table")
    ap.add_argument("--errors-only", action="store_true", help="leave warnings out")
    ap.add_argument("--no-response", action="store_true", help="check requests alone (traffic of an emulator known to be partial)")
    ap.add_argument("--selftest", action="store_true")
    args = ap.parse_args(argv)
    if args.selftest:
        return selftest(args)
    if not args.records:
        ap.error("give a records file, or --selftest")
    try:
        return run(args)
    except OSError as exc:
        print(f"contract_check: {exc}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
