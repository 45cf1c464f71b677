"""Tests of messages and terminal output as HTML: what is hostile in them stays text."""

from __future__ import annotations

import re

import pytest

from arena.runs.trace.ansi import ansi_lines, without_escapes
from arena.runs.trace.markdown import markdown_html

SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("plain", ["plain"]),
        ("a\r\nb\rc\n", ["a", "b", "c"]),
        ("\x1b[31mred\x1b[0m rest", ['<span class="ansi-fg-1">red</span> rest']),
        ("\x1b[1;92mok\x1b[22m no", ['<span class="ansi-fg-10 ansi-bold">ok</span>'
                                     '<span class="ansi-fg-10"> no</span>']),
        ("\x1b[31ma\nb\x1b[m", ['<span class="ansi-fg-1">a</span>',
                                '<span class="ansi-fg-1">b</span>']),
        ("\x1b[38;5;196mx", ['<span class="ansi-fg-9">x</span>']),
        ("\x1b[38;2;0;255;0mx", ['<span class="ansi-fg-10">x</span>']),
        ("\x1b[48:2::0:0:255mx", ['<span class="ansi-bg-12">x</span>']),
        ("\x1b[2K\x1b[1Gdone\x1b[?25h", ["done"]),
    ],
)  # fmt: skip
def test_terminal_output_keeps_colours_as_classes(text, lines):
    assert ansi_lines(text) == lines


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT,
        f"\x1b[31m{SCRIPT}\x1b[0m",
        f"\x1b]8;;javascript:alert(1)\x07{SCRIPT}\x1b]8;;\x07",
        f'\x1b]0;title" onmouseover="alert(1)\x07{SCRIPT}',
        f'\x1b[31" onclick="m{SCRIPT}',
        f"\x9b31m{SCRIPT}",
    ],
)
def test_hostile_terminal_output_stays_text(text):
    html = "".join(ansi_lines(text))
    tags = re.findall(r"<[^>]*>", html)
    assert all(re.fullmatch(r'</span>|<span class="[a-z0-9 -]+">', tag) for tag in tags)
    assert "&lt;script&gt;" in html and "\x1b" not in html and "javascript" not in html


def test_unfinished_escapes_end_with_their_line():
    assert without_escapes("a\x1b]0;never ended\nb") == "a0;never ended\nb"
    assert without_escapes("\x1b[") == "" and without_escapes("x\x1b") == "x"


def test_long_terminal_output_takes_linear_time():
    assert len(ansi_lines("\x1b]" * 200_000)) == 1
    assert len(ansi_lines("\x1b[31mx\n" * 50_000)) == 50_000


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT,
        "[a](javascript:alert(1))",
        "[a](data:text/html,x)",
        "![x](https://example.org/track.png)",
        "<img src=x onerror=alert(1)>",
        "<https://example.org/\"onclick=alert(1)>",
        "```html\n<script>alert(1)</script>\n```",
        "[a]: javascript:alert(1)\n\n[a]",
    ],
)  # fmt: skip
def test_hostile_markdown_has_no_live_markup(text):
    html = markdown_html(text)
    assert not re.search(r"<(script|img|iframe|style)|\son\w+=\"|href=\"(?!https?://)", html)


def test_markdown_of_a_message_is_rendered():
    html = markdown_html("# Plan\n\n- **fast** `code`\n\n| a | b |\n|---|--:|\n| 1 | 2 |")
    for part in ('<p class="heading">Plan</p>', "<strong>fast</strong>", "<code>code</code>",
                 '<td class="n">2</td>'):  # fmt: skip
        assert part in html


def test_markdown_link_to_the_web_is_marked_as_foreign():
    assert 'rel="nofollow noopener noreferrer"' in markdown_html("[a](https://example.org)")


def test_markdown_nested_without_end_is_rendered_in_bounded_time():
    assert len(markdown_html(">" * 5000 + "x")) < 1_000_000
    assert len(markdown_html("[" * 5000)) >= 5000


@pytest.mark.parametrize("sign", ["\x90", "\x98", "\x9d", "\x9e", "\x9f", "\x9b", "\x1b["])
@pytest.mark.parametrize("rest", ["", "0", "ab ", "\x1b"])
def test_escapes_that_never_end_take_linear_time(sign, rest):
    """A search to the end of the line for each of them would take minutes."""
    text = (sign + rest) * (400_000 // len(sign + rest))
    assert not set(without_escapes(text)) & set("\x1b\x90\x98\x9b\x9d\x9e\x9f")
    assert len(ansi_lines(text)) == 1


def test_strings_within_strings_are_removed_up_to_their_ends():
    assert without_escapes("a\x1b]0;title\x07b") == "ab"
    assert without_escapes("a\x9d0;title\x9cb\x90q\x1b\\c") == "abc"
    assert without_escapes("a\x90b\x9dc\x9cd") == "abd"
