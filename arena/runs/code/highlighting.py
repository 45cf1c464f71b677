"""Source code as coloured HTML.

Anybody may send the code, and many highlighters of pygments take quadratic time or worse. Only a
few are used, on limited text without long runs of white space, up to a deadline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from django.utils.html import escape
from pygments import format as formatted
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES, Token

from arena.runs.code.deadline import Late, processor_seconds, require_time

LEXERS = {
    "bash": "bash sh shell",
    "c": "c h",
    "cpp": "cpp c++ cc cxx hpp",
    "cuda": "cuda cu cuh hip",
    "diff": "diff patch",
    "gas": "gas asm s",
    "json": "json",
    "python": "python python3 py triton",
    "toml": "toml",
}
"""Highlighters of pygments by name, and the languages and suffixes of files that they are for."""
_LEXER_OF = {name: lexer for lexer, names in LEXERS.items() for name in names.split()}
STYLED = frozenset(
    {
        "c", "c1", "ch", "cm", "cp", "cpf", "fm", "k", "kc", "kd", "kn", "kr", "kt", "mb", "mf",
        "mh", "mi", "nc", "nd", "nf", "ow", "s", "s1", "s2", "sa", "sd", "se", "si",
    }
)  # fmt: skip
"""Classes of the style sheet; tokens of others need no element."""
MAX_CHARACTERS = 32_000
MAX_SECONDS = 0.2
"""Processor time for one text."""
WHITE_SPACE = re.compile(r"\s{100}")
"""Text with such a run is shown plainly: highlighters read it again from each character of it."""
CHECKED_TOKENS = 32
"""Tokens between two checks of the deadline."""
MAX_CACHED_TEXTS = 512


def code_html(code: str, language: str) -> str:
    """Return code as escaped HTML, coloured if its language is known and there is time.

    `language` is the name of a language or the suffix of a file.
    """
    lexer = _LEXER_OF.get(language.lower())
    if lexer is None or len(code) > MAX_CHARACTERS or WHITE_SPACE.search(code):
        return escape(code)
    try:
        return _coloured(code, lexer)
    except Late:
        return escape(code)


@lru_cache(MAX_CACHED_TEXTS)
def _coloured(code: str, lexer: str) -> str:
    """Return code as coloured HTML. Raises: Late."""
    with processor_seconds(MAX_SECONDS):
        tokens = _in_time(_lexer(lexer).get_tokens(code))
        html: str = formatted(tokens, HtmlFormatter(nowrap=True, classprefix=""))
    return html


@cache
def _lexer(name: str) -> Lexer:
    return get_lexer_by_name(name, stripnl=False)


def _in_time(tokens: Iterator[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    for number, token in enumerate(tokens):
        if number % CHECKED_TOKENS == 0:
            require_time()
        kind, text = token
        yield (kind if STANDARD_TYPES.get(kind) in STYLED else Token.Text), text
