"""Redaction of secrets, and repair of text that a database cannot store.

Text comes from agents. Its patterns take linear time, and none holds the interpreter's lock for
longer than a window takes.
"""

from __future__ import annotations

import functools
import math
import os
import re
import time
from typing import Any

from arena.text import repaired

REDACTED = "[redacted]"
MAX_SECONDS = 2.0
"""Processor time for one event; what it does not suffice for is cut."""
WINDOW, MAX_MATCH = 1 << 16, 1 << 14
"""Characters that a pattern searches at once, and those that a match may reach beyond them."""
MAX_CACHED_CHARACTERS = 64
"""Results for shorter text are cached."""

NAME = (
    r"[aAcCpPsStT](?i:(?<=a)(?:pi[_-]?key|ccess[_-]?key)|(?<=s)ecret(?:[_-]?key)?|(?<=t)oken"
    r"|(?<=p)ass(?:wd|word)|(?<=c)redential)"
)
VALUE = r"[\w+/=.~-]{8,}+"
HAS_DIGIT = rf"(?:[a-zA-Z_+/=.~-]++|[^\W\d])*+\d|{VALUE}[^\s\"',;&\d]{{0,100}}+\d"
"""Matches a value with a digit in it or soon after it."""
SECRET_VARIABLE = re.compile(NAME)
STARTS = r"(?:(?<=\b.)|(?<=\\[bfnrt].))"
"""Follows the first character of a word, which in JSON can follow an escape directly."""

# Each begins with a literal or a set of characters, which `re` searches quickly. Each attempt is
# short, or what it has read is part of a match, secret or not, and is not read again.
PATTERNS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
        r"(?:[^-]|-(?!----(?:BEGIN|END) )){0,8000}+-----END [A-Z ]{0,30}KEY-----(?P<whole>)",
        rf"[sSpPrR]{STARTS}[kK]-[\w-]{{16,200}}+(?P<whole>)",
        rf"[aAgGhHxX]{STARTS}(?i:"
        r"(?:(?<=g)(?:h[oprsu]|lpat|ithub_pat)|(?<=x)ox[abpr]|(?<=h)f|(?<=a)rena)[_-][\w-]{16,200}+"
        r"|(?<=a)(?:kia[0-9A-Z]{16}\b|iza[\w-]{35}))(?P<whole>)",
        rf"[eE]{STARTS}[yY][jJ][\w-]{{8,}}+(?P<whole>\.[\w-]{{8,2000}}+\.[\w-]{{8,1000}}+)?",
        rf"[bB]{STARTS}(?i:earer|asic)\s{{1,5}}(?P<part>[\w+/.~-]{{12,4000}}+=*+)",
        r"://[^\s:/@]{0,100}+:(?P<part>[^\s/@]{1,200}+)@",
        # A value is a secret if it has a digit and is not an expression of code.
        rf"{NAME}[\"']?\s{{0,5}}[=:]\s{{0,5}}[\"']?(?:(?={HAS_DIGIT})(?P<part>{VALUE})(?![(\[])|{VALUE})",
    )
)
"""The secret of a match is its group `part`, or all of it if there is a group `whole`."""


def clean(value: Any, seconds: float = MAX_SECONDS) -> Any:
    """Return JSON data with secrets redacted, and NaN, NUL and lone surrogates replaced.

    What takes more than `seconds` of processor time is cut.
    """
    return _clean(value, time.thread_time() + seconds)


def _clean(value: Any, ends: float) -> Any:
    if isinstance(value, str):
        return _clean_text(value, ends)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_clean_text(str(key), ends): _clean(item, ends) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item, ends) for item in value]
    return value


def _clean_text(text: str, ends: float) -> str:
    return _clean_cached(text) if len(text) <= MAX_CACHED_CHARACTERS else _cleaned(text, ends)


def _cleaned(text: str, ends: float = math.inf) -> str:
    text = repaired(text)
    for secret in _secrets_of_this_process():
        text = text.replace(secret, REDACTED)
    kept: list[str] = []
    at = 0
    spans, searched = _secrets(text, ends)
    for begin, end in spans:
        if begin >= at:
            kept += text[at:begin], REDACTED
        at = max(at, end)
    kept.append(text[at:searched])
    if searched < len(text):
        kept.append(f"\n… {len(text) - searched} characters cut: too slow to redact …")
    return "".join(kept)


def _secrets(text: str, ends: float) -> tuple[list[tuple[int, int]], int]:
    """Return begin and end of each secret in order, and where the search was out of time."""
    spans = []
    searched = 0
    resume = [0] * len(PATTERNS)
    while searched < len(text) and time.thread_time() < ends:
        end = searched + WINDOW
        for index, pattern in enumerate(PATTERNS):
            for found in pattern.finditer(text, max(searched, resume[index]), end + MAX_MATCH):
                if found.start() >= end:
                    break
                resume[index] = found.end()
                if found.lastgroup:
                    spans.append(found.span(0 if found.lastgroup == "whole" else "part"))
        searched = end
    return sorted(spans), searched


_clean_cached = functools.lru_cache(maxsize=4096)(_cleaned)


@functools.cache
def _secrets_of_this_process() -> tuple[str, ...]:
    """Return the values of environment variables with a secret's name; a child may print them."""
    found = {v for k, v in os.environ.items() if SECRET_VARIABLE.search(k) and len(v) >= 8}
    return tuple(sorted(found, key=len, reverse=True))
