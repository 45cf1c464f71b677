"""Redaction of secrets, and repair of text that a database cannot store."""

from __future__ import annotations

import functools
import math
import os
import re
from typing import Any

REDACTED = "[redacted]"
SECRET_NAME = r"(?:api[_-]?key|secret(?:[_-]?key)?|access[_-]?key|token|passwd|password|credential)"

PREFIXES = "gho ghp ghs ghu ghr glpat github_pat xoxa xoxb xoxp xoxr hf arena".split()
NAMES = ("key", "secret", "token", "passwd", "password", "credential")

BEGIN = r"(?:\b|(?<=\\[bfnrt]))"
"""Start of a word, which in JSON can follow an escape directly."""

# Text comes from agents, so every repetition is bounded: no text can make a pattern slow. A pattern
# is searched only in text that contains one of its words.
PATTERNS = [
    (words, re.compile(pattern, re.DOTALL | re.IGNORECASE), replacement)
    for words, pattern, replacement in (
        (
            ("private key-----",),
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.{0,8000}?-----END [A-Z ]{0,30}KEY-----",
            REDACTED,
        ),
        (("sk-", "pk-", "rk-"), BEGIN + r"(?:sk|pk|rk)-[\w-]{16,200}+", REDACTED),
        (
            tuple(f"{prefix}{mark}" for prefix in PREFIXES for mark in "_-"),
            BEGIN + rf"(?:{'|'.join(PREFIXES)})[_-][\w-]{{16,200}}+",
            REDACTED,
        ),
        (("akia",), BEGIN + r"AKIA[0-9A-Z]{16}\b", REDACTED),
        (("aiza",), BEGIN + r"AIza[\w-]{35}", REDACTED),
        (("eyj",), BEGIN + r"eyJ[\w-]{8,500}+\.[\w-]{8,2000}+\.[\w-]{8,1000}+", REDACTED),
        (
            ("bearer", "basic"),
            BEGIN + r"(bearer|basic)\s{1,5}[\w+/.~-]{12,4000}+=*",
            rf"\1 {REDACTED}",
        ),
        (("://",), r"(?<=://)([^\s:/@]{0,100}):[^\s/@]{1,200}@", rf"\1:{REDACTED}@"),
        # A value is a secret if it has a digit and is not an expression of code.
        (
            NAMES,
            rf"({SECRET_NAME}[\"']?\s{{0,5}}[=:]\s{{0,5}}[\"']?)"
            r"(?=[^\s\"',;&]{0,100}\d)[\w+/=.~-]{8,1000}+(?![(\[])",
            rf"\1{REDACTED}",
        ),
    )
]
MAX_CACHED_CHARACTERS = 64
"""Results for shorter text are cached."""
SECRET_VARIABLE = re.compile(rf"(?i){SECRET_NAME}")


def clean(value: Any) -> Any:
    """Return JSON data with secrets redacted, and NaN, NUL and lone surrogates replaced."""
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_clean_text(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return value


def _clean_text(text: str) -> str:
    return _clean_cached(text) if len(text) <= MAX_CACHED_CHARACTERS else _cleaned(text)


def _cleaned(text: str) -> str:
    text = text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
    for secret in _secrets_of_this_process():
        text = text.replace(secret, REDACTED)
    lowered = text.lower()
    for words, pattern, replacement in PATTERNS:
        if any(word in lowered for word in words):
            text = pattern.sub(replacement, text)
    return text


_clean_cached = functools.lru_cache(maxsize=4096)(_cleaned)


@functools.cache
def _secrets_of_this_process() -> tuple[str, ...]:
    """Return the values of environment variables with a secret's name; a child may print them."""
    found = {v for k, v in os.environ.items() if SECRET_VARIABLE.search(k) and len(v) >= 8}
    return tuple(sorted(found, key=len, reverse=True))
