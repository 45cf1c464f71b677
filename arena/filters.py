"""Filters of lists: the words of a search, and a sentence for a value that stands for nothing."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest

MAX_SHOWN_VALUE = 100
MAX_WORDS = 100
"""Characters of a search."""


def containing(words: str, *fields: str) -> Q:
    """Return a condition: each word is in one of the fields, in upper or lower case."""
    found = Q()
    for word in words.split():
        found &= Q(*((f"{field}__icontains", word) for field in fields), _connector=Q.OR)
    return found


def words_of(request: HttpRequest) -> str:
    """Return the words that a list is searched for; empty for the whole list."""
    return request.GET.get("q", "").replace("\0", "").strip()[:MAX_WORDS]


def unknown_value(name: str, value: str) -> str:
    """Return a sentence that says that there is no such `name`, for example no such agent."""
    return f"There is no {name} “{value[:MAX_SHOWN_VALUE]}” here."
