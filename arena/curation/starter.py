"""The files of a new draft: a small task that passes its checks, to be changed step by step."""

from __future__ import annotations

from pathlib import Path

STARTER = Path(__file__).with_name("starter")
SUFFIX = ".in"


def starter_draft(name: str, title: str) -> dict[str, str]:
    """Return the files of a new operator, in which its name and its title are filled in."""
    quoted = title.replace("\\", "\\\\").replace('"', '\\"')
    files = {}
    for path in sorted(STARTER.rglob(f"*{SUFFIX}")):
        inner = path.relative_to(STARTER).as_posix().removesuffix(SUFFIX)
        text = path.read_text(encoding="utf-8")
        files[inner] = text.replace("@NAME@", name).replace("@TITLE@", quoted)
    return files
