"""Terminal output as safe HTML: colours become spans of known classes, other escapes are removed.

Control sequences are those of ECMA-48. Nothing is overwritten or concealed as a terminal would do:
a carriage return begins a line, and hidden text is shown. Every text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

LINE_END = re.compile(r"\r\n?")
CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"  # CSI
    # OSC, DCS and the like; one without an end is read up to the next one, for linear time.
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\n]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
FLAGS = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
ENDS = {
    22: ("bold", "faint"),
    23: ("italic",),
    24: ("underline",),
    27: ("inverse",),
    29: ("strike",),
}
CUBE_BEGINS, GRAYS_BEGIN = 16, 232
"""First indices of the 6x6x6 colours and of the grays in the palette of 256."""


@dataclass(frozen=True)
class Style:
    """Colours, 0 to 15 or None, and the set flags of a text."""

    foreground: int | None = None
    background: int | None = None
    flags: frozenset[str] = field(default_factory=frozenset)

    @property
    def classes(self) -> str:
        colours = (("fg", self.foreground), ("bg", self.background))
        named = [f"ansi-{name}-{colour}" for name, colour in colours if colour is not None]
        return " ".join([*named, *(f"ansi-{flag}" for flag in sorted(self.flags))])


PLAIN = Style()


def ansi_lines(text: str) -> list[SafeString]:
    """Return the lines of a terminal's output as HTML; each is complete in itself."""
    lines: list[list[str]] = [[]]
    for piece, style in _pieces(LINE_END.sub("\n", text)):
        for number, part in enumerate(piece.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append(_span(part, style))
    if len(lines) > 1 and not lines[-1]:
        lines.pop()  # the end of the last line begins none
    return [mark_safe("".join(parts)) for parts in lines]


def without_escapes(text: str) -> str:
    """Return a text without control sequences and control characters."""
    return CONTROL.sub("", LINE_END.sub("\n", text))


def _span(text: str, style: Style) -> str:
    return f'<span class="{style.classes}">{escape(text)}</span>' if style.classes else escape(text)


def _pieces(text: str) -> Iterator[tuple[str, Style]]:
    """Yield each text between control sequences, with its style."""
    style, at = PLAIN, 0
    for control in CONTROL.finditer(text):
        yield text[at : control.start()], style
        at = control.end()
        if control["final"] == "m":
            style = _applied(style, control["parameters"])
    yield text[at:], style


def _applied(style: Style, parameters: str) -> Style:
    """Return the style after a sequence of "select graphic rendition"."""
    codes = iter([[_number(each) for each in code.split(":")] for code in parameters.split(";")])
    for code, *more in codes:
        match code:
            case 0:
                style = PLAIN
            case 4 if more == [0]:
                style = replace(style, flags=style.flags - {"underline"})
            case _ if code in FLAGS:
                style = replace(style, flags=style.flags | {FLAGS[code]})
            case _ if code in ENDS:
                style = replace(style, flags=style.flags - set(ENDS[code]))
            case 38:
                style = replace(style, foreground=_extended(more, codes))
            case 48:
                style = replace(style, background=_extended(more, codes))
            case 39:
                style = replace(style, foreground=None)
            case 49:
                style = replace(style, background=None)
            case _ if 30 <= code <= 37 or 90 <= code <= 97:
                style = replace(style, foreground=code - 30 if code < 90 else code - 82)
            case _ if 40 <= code <= 47 or 100 <= code <= 107:
                style = replace(style, background=code - 40 if code < 100 else code - 92)
    return style


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 4 else 0


def _extended(more: list[int], codes: Iterator[list[int]]) -> int | None:
    """Return the nearest of 16 colours; its form follows after colons, or as further codes."""
    if not more:
        form = next(codes, [0])[0]
        more = [form, *(next(codes, [0])[0] for _ in range({5: 1, 2: 3}.get(form, 0)))]
    match more:
        case [5, int(index), *_]:
            return _of_palette(index)
        case [2, *_, int(red), int(green), int(blue)] if len(more) in (4, 5):
            return _nearest(red, green, blue)
    return None


def _of_palette(index: int) -> int | None:
    if index < CUBE_BEGINS:
        return index
    if index < GRAYS_BEGIN:
        levels = (
            (index - CUBE_BEGINS) // 36,
            (index - CUBE_BEGINS) // 6 % 6,
            (index - CUBE_BEGINS) % 6,
        )
        return _nearest(*(51 * level for level in levels))
    return _nearest(*3 * (8 + 10 * (index - GRAYS_BEGIN),)) if index < 256 else None


def _nearest(red: int, green: int, blue: int) -> int:
    """Return the colour of 16 whose hue and brightness are like those of 24 bits."""
    strongest = max(red, green, blue)
    if strongest < 64:
        return 0
    if min(red, green, blue) > 0.75 * strongest:  # gray
        return 8 if strongest < 144 else 7 if strongest < 224 else 15
    hue = sum(bit for bit, part in ((1, red), (2, green), (4, blue)) if part > strongest / 2)
    return hue + (8 if strongest > 208 else 0)
