"""Tests of a diff in two columns."""

from __future__ import annotations

import re

import pytest

from arena.runs.code.side_by_side import difference, marked, split_html

DIFF = """--- a/k.cpp
+++ b/k.cpp
@@ -3,4 +3,5 @@
 int a;
-float total = 0;
+float total = 1;
+int more;
 int b;
@@ -20,2 +21,1 @@
-int gone;
 int c;
"""


def rows(html: str) -> list[list[str]]:
    """Return the cells of each row, without marks and colours."""
    return [
        [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
    ]


def test_lines_stand_beside_what_they_replace_with_their_numbers():
    assert rows(split_html("k.cpp", DIFF)) == [
        ["3", "int a;", "3", "int a;"],
        ["4", "float total = 0;", "4", "float total = 1;"],
        ["", "", "5", "int more;"],
        ["5", "int b;", "6", "int b;"],
        ["⋯"],
        ["20", "int gone;", "", ""],
        ["21", "int c;", "21", "int c;"],
    ]


def test_change_inside_a_line_is_marked_on_both_sides():
    html = split_html("k.cpp", DIFF)
    assert [re.sub("<[^>]*>", "", m) for m in re.findall(r"<mark>(.*?)</mark>", html)] == ["0", "1"]


@pytest.mark.parametrize(
    ("old", "new", "spans"),
    [
        ("LANES 8", "LANES 16", ((6, 7), (6, 8))),
        ("a + b", "a + b + c", ((5, 5), (5, 9))),
        ("int x;", "return 7 + 3;", None),
        ("same", "same", ((4, 4), (4, 4))),
    ],
)
def test_difference_is_what_lies_between_common_ends(old, new, spans):
    assert difference(old, new) == spans


def test_mark_counts_references_as_characters_and_crosses_no_tag():
    html = '<span class="k">if</span> a &lt; b'
    assert marked(html, 1, 6) == ('<span class="k">i<mark>f</mark></span><mark> a &lt;</mark> b')


@pytest.mark.parametrize("evil", ["<img src=x onerror=alert(1)>", "</td><script>", "&lt;b&gt;"])
@pytest.mark.parametrize("path", ["k.cpp", "k.py", "k.unknown"])
def test_hostile_lines_stay_text(evil, path):
    diff = f"--- a\n+++ b\n@@ -1,1 +1,1 @@\n-int a{evil};\n+int b{evil};\n"
    html = split_html(path, diff)
    assert set(re.findall(r"</?(\w+)", html)) <= {"tr", "td", "span", "mark"}
    assert "onerror=alert(1)>" not in html


@pytest.mark.parametrize("diff", ["", "+no hunk", "@@ -1 +1 @@", "@@ broken\n-a\n+b\n"])
def test_diff_without_a_hunk_has_no_rows(diff):
    assert split_html("k.cpp", diff) == ""


def test_missing_end_of_a_file_is_no_line():
    diff = "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
    assert rows(split_html("k.cpp", diff)) == [["1", "a", "1", "b"]]
