"""A trace as a document to read: Markdown, and one page of HTML that loads nothing.

Every text of a trace may be hostile. HTML is escaped; in Markdown, a text with an element, a link
or an image stands in a fence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.html import escape, format_html

from arena.catalog.templatetags.figures import clock, times
from arena.runs.models import Run
from arena.runs.trace.ansi import without_escapes
from arena.runs.trace.entries import Entry
from arena.runs.trace.timeline import rows

SHOWN: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "status": (("state", "reason"), {}),
    "span_begin": (("title", "note"), {}),
    "span_end": (("round", "verdict", "reason"), {"message": "text"}),
    "message": (("role", "model"), {"reasoning": "prose", "text": "prose"}),
    "model_call": (("model", "stop_reason"), {"error": "text"}),
    "tool_call": (("tool",), {"arguments": "json"}),
    "tool_result": (("ok", "exit_code"), {"error": "text", "output": "text"}),
    "file_edit": (("operation", "path"), {"diff": "diff"}),
    "compiler_output": (
        ("tool", "arch", "ok"),
        {"diagnostics": "json", "resources": "json", "text": "text"},
    ),
    "profiler_output": (
        ("tool", "case", "round"),
        {"message": "text", "kernels": "json", "text": "text"},
    ),
    "gate_result": (("scope", "round", "gate", "verdict", "reason"), {"message": "text"}),
    "metric": (("scope", "round", "name", "case", "value", "unit", "low", "high"), {}),
    "limit": (("name", "used", "limit", "text"), {}),
    "interrupt": (("by", "text"), {}),
    "log": (("level",), {"text": "text"}),
    "error": (("type", "fault"), {"message": "text", "traceback": "text"}),
    "note": ((), {"text": "prose", "detail": "json"}),
}
"""Fields of each kind of event: those of its line, and its texts with their language."""
LEFT_OUT = ("raw_output", "model_progress", "output_chunk")
"""Kinds whose text other events have, too."""
RISKY = re.compile(r"<[a-z/!?]|!\[|\]\(|\]\[|\]:|://|&[#a-z]|javascript:", re.IGNORECASE)
"""Beginnings of what a viewer of Markdown could load, or follow."""
BACKTICKS = re.compile(r"`+")
HEADINGS = ("turn", "submission", "subagent")
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .5rem; margin: .3rem 0;
  background: #8881; border-left: 3px solid #8886; font: 13px/1.4 monospace; }
pre.prose { font: inherit; background: none; }
article { border-top: 1px solid #8884; padding: .4rem 0; }
article > p { margin: 0; overflow-wrap: anywhere; }
article.bad { border-left: 3px solid #b33a3a; padding-left: .5rem; }
.added { background: #2a94; } .removed { background: #b434; }
h2 { margin: 1.2rem 0 .3rem; font-size: 1.1rem; } small { opacity: .75; }
"""


@dataclass(frozen=True)
class Row:
    """Words of a row of the trace: its line, and its texts with their languages."""

    entry: Entry
    line: str
    texts: list[tuple[str, str]]

    @property
    def is_heading(self) -> bool:
        event = self.entry.event
        return event.kind == "span_begin" and event.body["span_kind"] in HEADINGS


def markdown(run: Run) -> Iterator[str]:
    """Yield a trace as Markdown."""
    yield f"# {_inline(_title(run))}\n\n"
    yield from (f"- {_inline(fact)}\n" for fact in _facts(run))
    for row in _rows(run):
        at = f"{row.entry.seq}, {clock(row.entry.event.t_ms)}"
        mark = "## " if row.is_heading else ""
        yield f"\n{mark}{row.entry.label} ({at}): {_inline(row.line)}\n"
        for text, language in row.texts:
            yield "\n" + _quoted(text, language)


def html(run: Run) -> Iterator[str]:
    """Yield a trace as one page of HTML, with its style and without scripts."""
    title = escape(_title(run))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n<ul>"
    )
    yield from (format_html("<li>{}</li>", fact) for fact in _facts(run))
    yield "</ul>\n"
    for row in _rows(run):
        entry = row.entry
        at = clock(entry.event.t_ms)
        tag = "h2" if row.is_heading else "p"
        yield f'<article id="e{entry.seq}" class="{entry.tone}"><{tag}>' + format_html(
            "<small>{} · {} · {}</small> {}", entry.seq, at, entry.label, row.line
        )
        yield f"</{tag}>"
        for text, language in row.texts:
            lines = _coloured(text) if language == "diff" else escape(text)
            yield f'<pre class="{language}">{lines}</pre>'
        yield "</article>\n"
    yield "</body></html>\n"


def _title(run: Run) -> str:
    return f"{run.task_version.task.slug} by {run.author}"


def _facts(run: Run) -> list[str]:
    """Return the first lines of a document: what ran, where, and with what result."""
    facts = [f"Run {run.pk} on {run.hardware.name}: {run.status}"]
    if run.agent.model:
        facts.append(f"Model {run.agent.model}, {run.agent.adapter} {run.harness_version}".strip())
    kind = run.task_version.task.kind
    if run.speedup is not None and not kind.one_speedup:
        facts.append(f"Speedup, public: {times(run.speedup)}")
    if run.unseen_speedup is not None:
        facts.append(f"{kind.labels.speedup}: {times(run.unseen_speedup)}")
    return [*facts, f"{run.last_seq} events"]


def _rows(run: Run) -> Iterator[Row]:
    for entry in rows(run.events.all(), run.last_seq):
        if entry.event.kind not in LEFT_OUT:
            yield _row(entry)


def _row(entry: Entry) -> Row:
    words, texts = _words(entry)
    if entry.result:
        more, results = _words(entry.result)
        words += ["→", *more]
        texts += results
    if entry.cases:
        texts.append(("\n".join(" ".join(_words(each)[0]) for each in entry.cases), "text"))
    if led := entry.outcome:
        result = times(led.speedup) if led.speedup is not None else led.verdict
        words.append(f"led to round {led.round}: {result}")
    if entry.agents:
        words.insert(0, f"[{' / '.join(entry.agents)}]")
    return Row(entry, " ".join(without_escapes(word) for word in words), texts)


def _words(entry: Entry) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the words of a row's line and its texts."""
    body = entry.event.body
    if entry.event.kind not in SHOWN:
        return [], [(_text(body), "json")]
    names, texts = SHOWN[entry.event.kind]
    words = [_word(name, body[name]) for name in names]
    return (
        [word for word in words if word],
        [
            (without_escapes(_text(body[name])), language)
            for name, language in texts.items()
            if body[name]
        ],
    )


def _word(name: str, value: Any) -> str:
    match name, value:
        case (_, None):
            return ""
        case "ok", bool():
            return "ok" if value else "failed"
        case "exit_code" | "round" | "low" | "high", _:
            number = f"{value:.4g}" if isinstance(value, float) else str(value)
            return f"{name.replace('_', ' ').replace('exit code', 'exit')} {number}"
        case _, float():
            return f"{value:.4g}"
    return " ".join(str(value).split())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)


def _inline(text: str) -> str:
    """Return a line of text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#!|&])", r"\\\1", " ".join(text.split()))


def _quoted(text: str, language: str) -> str:
    """Return a text as a quotation if it is harmless prose, else in a fence that it cannot end."""
    if language == "prose" and not RISKY.search(text):
        return "".join(f"> {line}\n" for line in text.split("\n"))
    longest = max((len(run) for run in BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    name = "text" if language == "prose" else language
    return f"{fence}{name}\n{text.rstrip()}\n{fence}\n"


def _coloured(diff: str) -> str:
    """Return a unified diff as HTML, its added and removed lines marked."""
    classes = {"+": "added", "-": "removed"}
    return "\n".join(
        f'<span class="{classes[line[0]]}">{escape(line)}</span>'
        if line[:1] in classes
        else escape(line)
        for line in diff.split("\n")
    )
