"""The documents of the project as pages: Markdown of `docs/` and of the folder of tasks."""

from __future__ import annotations

import re
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
FOLDED_CHARACTERS = 8_000
"""Of HTML, beyond which the sections of a document fold."""
SECTION = re.compile(r"(<h2 [^<>]{0,200}>.{0,1000}?</h2>)\n")


@dataclass(frozen=True)
class Document:
    """A document: its name in the address, its title, its file, and its first sentences."""

    name: str
    title: str
    path: Path
    lede: str


@require_safe
def documents(request: HttpRequest) -> HttpResponse:
    return render(request, "documents.html", {"documents": listed().values()})


@require_safe
def document(request: HttpRequest, name: str) -> HttpResponse:
    shown = listed().get(name)
    if shown is None:
        raise Http404(f"There is no document {name}.")
    context = {"document": shown, "documents": listed().values(), "html": html_of(shown)}
    return render(request, "document.html", context)


@lru_cache(1)
def listed() -> dict[str, Document]:
    """Return the documents by name, in the order of their titles."""
    found = {path.stem: path for path in (settings.BASE_DIR / "docs").glob("*.md")}
    found[TASKS] = settings.BASE_DIR / "tasks" / "README.md"
    made = [_described(name, path) for name, path in found.items() if path.is_file()]
    return {each.name: each for each in sorted(made, key=lambda each: each.title.lower())}


def _described(name: str, path: Path) -> Document:
    title, _, text = path.read_text().partition("\n")
    lede = " ".join(text.strip().partition("\n\n")[0].split())
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", lede)
    return Document(name, title.lstrip("# "), path, plain)


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
    name = TASKS if path.endswith("tasks/README.md") else PurePosixPath(path).stem
    if path.endswith(".md") and name in listed():
        token.attrSet("href", reverse("document", args=[name]) + hash_sign + fragment)
    else:
        token.attrs.pop("href")
