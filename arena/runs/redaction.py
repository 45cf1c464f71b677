"""What must not be stored: secrets are struck out, text that no database takes is mended."""

from __future__ import annotations

import functools
import math
import os
import re
from typing import Any

STRUCK = "[redacted]"
SECRET_NAME = r"(?:api[_-]?key|secret(?:[_-]?key)?|access[_-]?key|token|passwd|password|credential)"

PATTERNS = [
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", STRUCK),
        (r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}", STRUCK),
        (
            r"\b(?:ghp|gho|ghu|ghs|ghr|glpat|github_pat|xox[abpr]|hf|arena)[_-][A-Za-z0-9_-]{16,}",
            STRUCK,
        ),
        (r"\bAKIA[0-9A-Z]{16}\b", STRUCK),
        (r"\bAIza[0-9A-Za-z_-]{35}", STRUCK),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", STRUCK),
        (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/._~-]{12,}=*", rf"\1 {STRUCK}"),
        (r"(?<=://)([^\s:/@]*):[^\s/@]+@", rf"\1:{STRUCK}@"),
        (rf"(?i)\b(\w*{SECRET_NAME}\w*[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]{{8,}}", rf"\1{STRUCK}"),
    )
]
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
    text = text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
    for secret in _secrets_of_this_process():
        text = text.replace(secret, STRUCK)
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text


@functools.cache
def _secrets_of_this_process() -> tuple[str, ...]:
    """Values of environment variables whose name says secret: a child may have printed them."""
    found = {v for k, v in os.environ.items() if SECRET_VARIABLE.search(k) and len(v) >= 8}
    return tuple(sorted(found, key=len, reverse=True))
