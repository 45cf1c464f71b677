"""What must not be stored: secrets are struck out, text that no database takes is mended."""

from __future__ import annotations

import functools
import math
import os
import re
from typing import Any

STRUCK = "[redacted]"
SECRET_NAME = r"(?:api[_-]?key|secret(?:[_-]?key)?|access[_-]?key|token|passwd|password|credential)"

PREFIXES = "gho ghp ghs ghu ghr glpat github_pat xoxa xoxb xoxp xoxr hf arena".split()
NAMES = ("key", "secret", "token", "passwd", "password", "credential")

BEGIN = r"(?:\b|(?<=\\[bfnrt]))"
"""Of a word, which JSON may have put right behind an escape."""

# Text comes from agents, so every repetition is bounded: no text can make a pattern slow. Most text
# has none of the words that a secret begins with, and is not searched for that kind.
PATTERNS = [
    (words, re.compile(pattern, re.DOTALL | re.IGNORECASE), replacement)
    for words, pattern, replacement in (
        (
            ("private key-----",),
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.{0,8000}?-----END [A-Z ]{0,30}KEY-----",
            STRUCK,
        ),
        (("sk-", "pk-", "rk-"), BEGIN + r"(?:sk|pk|rk)-[\w-]{16,200}+", STRUCK),
        (
            tuple(f"{prefix}{mark}" for prefix in PREFIXES for mark in "_-"),
            BEGIN + rf"(?:{'|'.join(PREFIXES)})[_-][\w-]{{16,200}}+",
            STRUCK,
        ),
        (("akia",), BEGIN + r"AKIA[0-9A-Z]{16}\b", STRUCK),
        (("aiza",), BEGIN + r"AIza[\w-]{35}", STRUCK),
        (("eyj",), BEGIN + r"eyJ[\w-]{8,500}+\.[\w-]{8,2000}+\.[\w-]{8,1000}+", STRUCK),
        (
            ("bearer", "basic"),
            BEGIN + r"(bearer|basic)\s{1,5}[\w+/.~-]{12,4000}+=*",
            rf"\1 {STRUCK}",
        ),
        (("://",), r"(?<=://)([^\s:/@]{0,100}):[^\s/@]{1,200}@", rf"\1:{STRUCK}@"),
        # A value is taken for a secret when it has a digit and is not an expression of code.
        (
            NAMES,
            rf"({SECRET_NAME}[\"']?\s{{0,5}}[=:]\s{{0,5}}[\"']?)"
            r"(?=[^\s\"',;&]{0,100}\d)[\w+/=.~-]{8,1000}+(?![(\[])",
            rf"\1{STRUCK}",
        ),
    )
]
SHORT = 64
"""Text of so many characters is cleaned once for all times that it comes."""
SECRET_VARIABLE = re.compile(rf"(?i){SECRET_NAME}")


def clean(value: Any) -> Any:
    """JSON data with secrets struck out of every text, and NaN, NUL and lone surrogates mended."""
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
    return _cleaned_before(text) if len(text) <= SHORT else _cleaned(text)


def _cleaned(text: str) -> str:
    text = text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
    for secret in _secrets_of_this_process():
        text = text.replace(secret, STRUCK)
    lowered = text.lower()
    for words, pattern, replacement in PATTERNS:
        if any(word in lowered for word in words):
            text = pattern.sub(replacement, text)
    return text


_cleaned_before = functools.lru_cache(maxsize=4096)(_cleaned)


@functools.cache
def _secrets_of_this_process() -> tuple[str, ...]:
    """Values of environment variables whose name says secret: a child may have printed them."""
    found = {v for k, v in os.environ.items() if SECRET_VARIABLE.search(k) and len(v) >= 8}
    return tuple(sorted(found, key=len, reverse=True))
