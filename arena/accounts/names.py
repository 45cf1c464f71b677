"""Names of users: which can be chosen, and which look like one another.

A name stands beside runs, so that nobody can take another's for it. Letters of several scripts look
alike (Latin and Cyrillic a): names have ASCII letters alone. Agents can have names in any script,
since the name of their user stands beside those; so can teams.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from django.utils.text import slugify

from arena.errors import Invalid

ALIKE = (("1", "l"), ("i", "l"), ("0", "o"), ("rn", "m"), ("vv", "w"))
"""Letters and pairs with those that they look like, in lower case: a capital i is an l."""

MAX_GIVEN = 1_000
"""Characters of a name as it is sent: the normal form takes a time of the square of its marks."""

JOINERS = dict.fromkeys((0x200C, 0x200D))
"""Signs within words of some scripts, which cannot be printed alone."""


def normal(name: str) -> str:
    """Return a name in any script in its normal form.

    Raises: Invalid for one that is not shown, or far too long.
    """
    if len(name) > MAX_GIVEN:
        raise Invalid(f"The name has {len(name):,} characters.", "Choose a shorter name.")
    name = unicodedata.normalize("NFKC", name).strip()
    if not name.translate(JOINERS).isprintable():
        raise Invalid("The name has a character that cannot be shown.", "Choose another name.")
    return name


def resembles_any(name: str, others: Iterable[str]) -> bool:
    """Return whether a name in any script is one of the others or, in ASCII, looks like one."""
    shape, same = skeleton(name), name.casefold()
    return any(
        each.casefold() == same or (name.isascii() and shape and skeleton(each) == shape)
        for each in others
    )


def skeleton(name: str) -> str:
    """Return a text that is equal for names that look alike (Unicode TS 39, for ASCII).

    It is made of the slug, with which the slugs of a user's agents begin. So signs are left out,
    and accents of names that an operator gave; it is empty for a name of signs alone.
    """
    text = slugify(name).replace("_", "-")
    for letters, drawn_as in ALIKE:
        text = text.replace(letters, drawn_as)
    return text
