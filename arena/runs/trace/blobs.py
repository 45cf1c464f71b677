"""How a large event body is kept: head and tail inline, the whole in a blob named by its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from arena.runs.models import Blob

INLINE_BYTES = 16 * 1024
HEAD = 6000
TAIL = 2000
LIST_HEAD = 20
LIST_TAIL = 5
MAP_ENTRIES = 40

Replace = Callable[[Any], None]


def shrink(body: dict[str, Any]) -> tuple[dict[str, Any], list[Blob]]:
    """The body within 16 KB, and the blobs that hold what was cut.

    `body["blobs"]` maps the path of each cut value, such as `output` or `listings/main.s`, to its
    hash and size; a body that is large without any large text is cut as a whole, under the path "".
    In a path keys are written as in a JSON Pointer (RFC 6901); those of older events are not.
    """
    if _size(body) <= INLINE_BYTES:
        return body, []
    whole = json.dumps(body)
    body = json.loads(whole)
    blobs: dict[str, Blob] = {}
    texts = sorted(_texts(body), key=lambda found: -len(found[1]))
    for path, text, replace in texts:
        if _size(body) <= INLINE_BYTES or len(text) <= HEAD + TAIL:
            break
        blobs[path] = blob_of(text)
        replace(f"{text[:HEAD]}\n… {len(text) - HEAD - TAIL} characters cut …\n{text[-TAIL:]}")
    if _size(body) > INLINE_BYTES:
        blobs[""] = blob_of(whole)
        body = _outline(body, INLINE_BYTES)
    body["blobs"] = {path: blob.reference for path, blob in blobs.items()}
    return body, list(blobs.values())


def _size(value: Any) -> int:
    return len(json.dumps(value))


def blob_of(text: str) -> Blob:
    """The blob that keeps a text."""
    data = text.encode()
    return Blob(sha256=hashlib.sha256(data).hexdigest(), size=len(data), content=text)


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str, Replace]]:
    """Every text inside `value`, with its path and a way to put another in its place."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        name = str(key).replace("~", "~0").replace("/", "~1")
        here = f"{path}/{name}" if path else name
        if isinstance(item, str):
            yield here, item, lambda text, k=key: value.__setitem__(k, text)
        elif isinstance(item, (dict, list)):
            yield from _texts(item, here)


def _outline(value: Any, room: int) -> Any:
    """`value` cut to about `room` bytes: the ends of texts and lists, the first entries of maps."""
    if _size(value) <= room:
        return value
    if isinstance(value, str):
        return value[: max(room // 3, 0)] + "…"
    if isinstance(value, list):
        kept = (
            value[:LIST_HEAD] + value[-LIST_TAIL:] if len(value) > LIST_HEAD + LIST_TAIL else value
        )
        return [_outline(item, room // (len(kept) + 1)) for item in kept]
    if isinstance(value, dict):
        smallest_first = sorted(value.items(), key=lambda item: _size(item[1]))[:MAP_ENTRIES]
        outlined: dict[str, Any] = {}
        for index, (key, item) in enumerate(smallest_first):
            share = (room - _size(outlined)) // (len(smallest_first) - index)
            outlined[key] = _outline(item, share)
        return outlined
    return value
