"""Time for texts that anybody may send: it grows no faster than the text, or has a deadline."""

from __future__ import annotations

import gc
import importlib
import math
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import arena
import runners
from arena.runs.code import deadline, highlighting
from arena.runs.code.sources import changes, diff_html, sources
from arena.runs.templatetags.traces import as_text
from arena.runs.trace import markdown
from arena.runs.trace.agent_events import agent_event
from arena.runs.trace.ansi import ansi_lines, without_escapes
from arena.runs.trace.blobs import shrink
from arena.runs.trace.redaction import clean
from evaluation.code import building, languages

MAX_CHARACTERS = 2 << 20
STEP = 4
MAX_GROWTH = 9.0
"""Of the time for a text that is STEP times as long: each doubling may triple it."""
MEASURABLE_SECONDS = 0.02
MAX_TRIES = 8
SPACES = (" ", "\n", "\t", "\n" + " " * 15)
BAITS = (
    *SPACES, "a", "1", "_", "(", "[", "{", "<", '"', "'", "`", "#", "/", "/*", "//\n", "\\", "\\\n",
    "*", "**a", "a(", "a b ", "a::", "a=", "$", "[a](", "![", "*_", "> ", "- a\n", "|-|\n",
    "a|b\n-|-\n", "<!--", "<a ", "# a\n", "```\n", "~~a", "&",
)  # fmt: skip
SECRET_BAITS = (
    *SPACES, "a", "a.", "token=", "token=1", "token=1(", "password: '", "sk-", " sk-", "-eyJ",
    "arena_", "-eyJaaaaaaaa", "eyJaaaaaaaa.aaaaaaaa.", "://a:", "://", "bearer ",
    "basic aaaaaaaaaaaa=", "AKIA", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ",
    "PRIVATE KEY-----", "-----END KEY-----", "AIza", "\\n",
)  # fmt: skip
ESCAPES = (
    "\x90", "\x9b", "\x1b]", "\x1bP", "\x1b[", "\x1b[1;", "\x1b[31mx\n", "\r", "\x1b ", "\x9d0;",
)  # fmt: skip


def _seconds(work: Callable[[str], object], text: str) -> float:
    """Return the processor time of a call, without collections of garbage."""
    gc.disable()
    try:
        began = time.thread_time()  # waits: measures, and callers try again
        work(text)
        return time.thread_time() - began  # waits: measures, and callers try again
    finally:
        gc.enable()


def _check_growth(work: Callable[[str], object], bait: str, most: int = MAX_CHARACTERS) -> None:
    """Require that time grows about as the text does, which is a bait again and again.

    Other work on a machine lengthens processor time too. The least of some calls counts, and work
    that takes quadratic time is too slow in each of them.
    """
    before, size = math.inf, max(most // STEP**4, 1)
    while size <= most:
        texts = [(bait * (length // len(bait) + 1))[:length] for length in (size // STEP, size)]
        spent = _seconds(work, texts[1])
        for _ in range(MAX_TRIES):
            if spent <= max(MEASURABLE_SECONDS, MAX_GROWTH * before):
                break
            before = min(before, _seconds(work, texts[0]))
            spent = min(spent, _seconds(work, texts[1]))
        else:
            pytest.fail(f"{bait!r}: {size // STEP} characters {before:.3f} s, {size} {spent:.3f} s")
        before, size = spent, size * STEP


def _ends_within(seconds: float, work: Callable[[str], object], text: str) -> bool:
    """Return whether work ends in time, at least once. What it keeps of a text helps no other."""
    return any(_seconds(work, f"{number}{text}") < seconds for number in range(MAX_TRIES))


def _modules(*packages: ModuleType) -> Iterator[ModuleType]:
    for package in packages:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not re.search(r"\.(__main__|migrations|asgi)\b", found.name):
                yield importlib.import_module(found.name)


def _patterns(value: Any) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns inside a constant of a module."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from _patterns(tuple(value.values()))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from _patterns(each)
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            yield from _patterns(getattr(value, name))


def _words(pattern: re.Pattern[Any]) -> list[str]:
    """Return the words of a pattern, alone and together, and white space."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    words = re.findall(r"[A-Za-z0-9 :/<>=_#-]{2,}", text)[:4]
    lines = [f"{word} 1\n" for word in words]
    return [*SPACES, "a", "1", "_", "/", *words, "".join(words) or "-", *lines]


def test_every_pattern_takes_linear_time_for_its_own_words():
    found = {
        (pattern.pattern, pattern.flags): pattern
        for module in _modules(arena, runners, building, languages)
        for value in list(vars(module).values())
        for pattern in _patterns(value)
    }
    assert len(found) > 50
    for pattern in found.values():
        of_bytes = isinstance(pattern.pattern, bytes)

        def search(text: str, pattern: Any = pattern, of_bytes: bool = of_bytes) -> None:
            for _ in pattern.finditer(text.encode() if of_bytes else text):
                pass

        for word in _words(pattern):
            _check_growth(search, word, MAX_CHARACTERS // STEP**2)


@pytest.mark.parametrize("bait", SECRET_BAITS)
def test_redaction_takes_linear_time(bait):
    _check_growth(clean, bait, MAX_CHARACTERS // STEP)
    assert "characters cut" not in clean(bait * (MAX_CHARACTERS // len(bait)), seconds=60)
    assert _ends_within(2, clean, bait * (MAX_CHARACTERS // len(bait)))


@pytest.mark.parametrize("render", [without_escapes, ansi_lines], ids=lambda each: each.__name__)
def test_terminal_output_takes_linear_time(render):
    for bait in (*ESCAPES, *SPACES):
        _check_growth(render, bait, MAX_CHARACTERS // STEP**2)


@pytest.mark.parametrize("language", highlighting.LEXERS)
def test_highlighter_ends_soon_after_its_deadline(language):
    def coloured(text: str) -> str:
        return highlighting.code_html(f"a{text}", language)

    for bait in BAITS:
        text = f"x{bait * (highlighting.MAX_CHARACTERS // len(bait) - 3)}"
        assert _ends_within(2 * highlighting.MAX_SECONDS, coloured, text), bait


def test_highlighter_of_a_name_that_is_not_listed_is_not_used():
    for language in ("autohotkey", "xpp", "autoit", "easytrieve", "csharp", "make", "ini", ""):
        assert highlighting.code_html("a < b", language) == "a &lt; b"


def test_code_with_a_long_run_of_white_space_is_plain():
    assert "<span" not in highlighting.code_html("int a;" + "\n" * 200, "cpp")
    assert "<span" in highlighting.code_html("int a;" + "\n" * 20, "cpp")


@pytest.mark.parametrize("bait", BAITS)
def test_markdown_takes_linear_time(bait):
    markdown._rendered.cache_clear()
    _check_growth(lambda text: markdown._rendered.__wrapped__(text), bait, markdown.MAX_CHARACTERS)
    assert _ends_within(3, markdown.markdown_html, bait * MAX_CHARACTERS)


@pytest.mark.parametrize("fence", ["autohotkey\n" + "\n" * 4000, "cpp\n" + "a\n" * 4000])
def test_message_with_the_worst_code_is_rendered_in_time(fence):
    assert _ends_within(0.5, markdown.markdown_html, f"\n```{fence}```")


def test_files_of_a_page_have_one_deadline():
    def shown(number: str) -> object:
        files = {f"{n}.toml": number + "(&=" * 1000 for n in range(20)}
        return sources(files | {"a.cpp": number + (" " * 15 + "\n") * 1999})

    assert _ends_within(2 * deadline.PAGE_SECONDS, shown, "")


def test_comparison_of_equal_lines_is_bounded():
    [shown] = changes({"a": "a\n" * 2790}, {"a": "a\nb\n" * 99})
    assert shown.cut
    [shown] = changes({"a": "a\n" * 100}, {"a": "a\nb\n" * 99})
    assert not shown.cut and shown.added == 99


@pytest.mark.parametrize("bait", ["\n", "+", "+\n", "@@", "a"])
def test_diff_takes_linear_time(bait):
    _check_growth(diff_html, bait, MAX_CHARACTERS // STEP**2)


def test_event_of_many_texts_is_shrunk_in_linear_time():
    def shrunk(text: str) -> object:
        parts = [text[at : at + 8001] for at in range(0, len(text), 8001)]
        event = {"kind": "note", "body": {"text": "", "detail": {"parts": parts}}}
        body: Any = agent_event(event, 1).body
        return shrink(dict(body)), as_text(body)

    _check_growth(shrunk, "a")


def test_redaction_beyond_its_deadline_cuts():
    secret = "sk-" + "a1" * 20
    kept = clean({"text": f"{'a ' * 200_000}{secret}"}, seconds=0)["text"]
    assert secret not in kept and "characters cut" in kept


def test_secret_across_the_windows_of_a_search_is_redacted():
    secret = "sk-" + "a1" * 20
    for before in range(65_500, 65_540, 7):
        assert clean(f"{'.' * before} {secret} end") == f"{'.' * before} [redacted] end"
