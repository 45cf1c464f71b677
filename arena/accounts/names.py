"""Names of users: which can be chosen, and which look like one another.

A name stands beside runs, so that nobody can take another's for it. Letters of several scripts look
alike (Latin and Cyrillic a): names have ASCII letters alone. Agents can have names in any script,
since the name of their user stands beside those.
"""

from __future__ import annotations

from django.utils.text import slugify

ALIKE = (("1", "l"), ("i", "l"), ("0", "o"), ("rn", "m"), ("vv", "w"))
"""Letters and pairs with those that they look like, in lower case: a capital i is an l."""


def skeleton(name: str) -> str:
    """Return a text that is equal for names that look alike (Unicode TS 39, for ASCII).

    It is made of the slug, with which the slugs of a user's agents begin. So signs are left out,
    and accents of names that an operator gave; it is empty for a name of signs alone.
    """
    text = slugify(name)
    for letters, drawn_as in ALIKE:
        text = text.replace(letters, drawn_as)
    return text
