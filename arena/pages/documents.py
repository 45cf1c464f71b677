"""The documents of the project as pages: Markdown of `docs/` and of the folder of tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from arena.runs.trace.markdown import highlighted

TASKS = "tasks"
"""Name of the document that describes a folder of a task."""
INDEX = "README.md"
"""File of `docs/` that groups the documents by what a reader wants, each with a line."""
GROUP = re.compile(r"^## (.+)$", re.MULTILINE)
ENTRY = re.compile(r"^- \[[^]]*\]\(([^)#]+\.md)\): (.+(?:\n  .+)*)$", re.MULTILINE)
UNGROUPED = "More"
BESIDE = (".", "../docs")
"""Folders of the other documents, as links of a document name them."""
FOLDED_CHARACTERS = 8_000
"""Of HTML, beyond which the sections of a document fold."""
SECTION = re.compile(r"(<h2 [^<>]{0,200}>.{0,1000}?</h2>)\n")


@dataclass(frozen=True)
class Document:
    """A document: its name in the address, its title, its file, and its first sentences.

    `line` says what is in it: that of the index, else the first sentences.
    """

    name: str
    title: str
    path: Path
    lede: str
    line: str


@dataclass(frozen=True)
class Group:
    """Documents for one purpose of a reader."""

    title: str
    documents: Sequence[Document]


@require_safe
def documents(request: HttpRequest) -> HttpResponse:
    return render(request, "documents.html", {"groups": groups()})


@require_safe
def document(request: HttpRequest, name: str) -> HttpResponse:
    shown = listed().get(name)
    if shown is None:
        raise Http404(f"There is no document {name}.")
    context = {"document": shown, "groups": groups(), "html": html_of(shown)}
    return render(request, "document.html", context)


@lru_cache(1)
def groups() -> Sequence[Group]:
    """Return the documents of this checkout in their groups."""
    return grouped(settings.BASE_DIR)


@lru_cache(1)
def listed() -> dict[str, Document]:
    """Return the documents by name, in the order of their groups."""
    return {each.name: each for group in groups() for each in group.documents}


def grouped(root: Path) -> list[Group]:
    """Return the documents below `root` in the groups of the index; those it leaves out last."""
    docs = root / "docs"
    left = {path.stem: path for path in sorted(docs.glob("*.md")) if path.name != INDEX}
    if (tasks := root / "tasks" / "README.md").is_file():
        left[TASKS] = tasks
    index = docs / INDEX
    _, *parts = GROUP.split(index.read_text() if index.is_file() else "")
    found = []
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        lines = {_name_of(path): line for path, line in ENTRY.findall(text)}
        made = [_described(name, left.pop(name), lines[name]) for name in lines if name in left]
        found.append(Group(title, made))
    found.append(Group(UNGROUPED, [_described(name, path) for name, path in left.items()]))
    return [group for group in found if group.documents]


def _name_of(path: str) -> str:
    """Return the name of the document that a link from another leads to; empty for other files."""
    if path.endswith("tasks/README.md"):
        return TASKS
    target = PurePosixPath(path)
    return target.stem if str(target.parent) in BESIDE else ""


def _described(name: str, path: Path, line: str = "") -> Document:
    title, _, text = path.read_text().partition("\n")
    lede = _plain(text.strip().partition("\n\n")[0])
    line = _plain(line[:1].upper() + line[1:])
    return Document(name, title.lstrip("# "), path, lede, line or lede)


def _plain(text: str) -> str:
    """Return a paragraph of Markdown on one line, without its marks."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", " ".join(text.split()))


@lru_cache(64)
def html_of(document: Document) -> SafeString:
    """Return the HTML of a document; links to files that are no page lead nowhere."""
    options = {"html": False, "highlight": highlighted}
    parser = MarkdownIt("commonmark", options).enable("table").disable("image")
    tokens = parser.parse(document.path.read_text())
    for token, following in zip(tokens, [*tokens[1:], Token("", "", 0)], strict=True):
        if token.type == "heading_open":
            token.attrSet("id", slugify(following.content))
        elif token.type == "code_block":
            token.attrSet("tabindex", "0")
        token.attrs.pop("style", None)  # the content security policy refuses it
        for inner in token.children or ():
            if inner.type == "link_open":
                _relink(inner)
    html: str = parser.renderer.render(tokens, parser.options, {})
    wide = '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>'
    html = html.replace("<table>", wide).replace("</table>", "</table></div>")
    return mark_safe(_folded(html) if len(html) > FOLDED_CHARACTERS else html)


def _folded(html: str) -> str:
    """Return a document whose sections fold; a phone gets them closed, as a table of contents."""
    begin, *rest = SECTION.split(html)
    sections = zip(rest[::2], rest[1::2], strict=True)
    return begin + "".join(
        f'<details class="fold" open><summary>{heading}</summary>{text}</details>'
        for heading, text in sections
    )


def _relink(token: Token) -> None:
    """Lead a link between documents to the page of the other one."""
    target = str(token.attrGet("href"))
    if target.startswith(("http://", "https://", "#")):
        return
    path, hash_sign, fragment = target.partition("#")
    name = _name_of(path)
    if path.endswith(".md") and name in listed():
        token.attrSet("href", reverse("document", args=[name]) + hash_sign + fragment)
    else:
        token.attrs.pop("href")
