"""Finds a secret in a text in whatever form it may stand there; knows nothing of how icefloe hides it."""

import base64
import html
import json
import re
from urllib.parse import quote, quote_plus, unquote

__all__ = ["traces_of"]

_FRAGMENT = 9
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}={0,2}")


def traces_of(secret: str, text: str) -> list[str]:
    """The places where a text gives a secret away; nine characters of it in a row are enough."""
    found = [form for form in _forms(secret) if form in text]
    for view in _views(text):
        found += [part for part in _fragments(secret.strip()) if part in view]
    return found


def _forms(secret: str) -> set[str]:
    plain = {secret, secret.strip()}
    escaped = {repr(each)[1:-1] for each in plain} | {json.dumps(each)[1:-1] for each in plain}
    quoted = {quote(each, safe=safe) for each in plain for safe in ("", "/")} | {quote_plus(each) for each in plain}
    encoded = {
        encode(f"{before}{each}".encode()).decode().rstrip("=")
        for encode in (base64.b64encode, base64.urlsafe_b64encode)
        for each in plain
        for before in ("", "user:", "client-id:", "id:")
    }
    return plain | escaped | quoted | encoded | {html.escape(each) for each in plain}


def _fragments(secret: str) -> set[str]:
    return {secret[start : start + _FRAGMENT] for start in range(max(1, len(secret) - _FRAGMENT + 1))}


def _views(text: str) -> list[str]:
    """The text, and what it is when it is unquoted, unescaped or decoded."""
    views = [text, unquote(text), html.unescape(text), text.replace("\\\\", "\\"), "".join(text.split())]
    for run in _BASE64.findall(unquote(text)):
        for start in range(4):
            whole = run[start:].rstrip("=").replace("-", "+").replace("_", "/")
            whole = whole[: len(whole) - (len(whole) % 4 == 1)]
            views.append(base64.b64decode(whole + "=" * (-len(whole) % 4)).decode("latin-1"))
    return views
