"""Names of users: which can be chosen, and which look like one another.

A name stands beside runs, so that nobody can take another's for it. Letters of several scripts look
alike (Latin and Cyrillic a): names have ASCII letters alone. Agents can have names in any script,
since the name of their user stands beside those.
"""

from __future__ import annotations

import unicodedata

ALIKE = (("1", "l"), ("i", "l"), ("0", "o"), ("rn", "m"), ("vv", "w"))
"""Letters and pairs with those that they look like, after `casefold`: a capital i is an l."""


def skeleton(name: str) -> str:
    """Return a text that is equal for names that look alike (Unicode TS 39, for ASCII).

    Accents are left out, for names that an operator gave.
    """
    parts = unicodedata.normalize("NFKD", name)
    text = "".join(each for each in parts if not unicodedata.combining(each)).casefold()
    for letters, drawn_as in ALIKE:
        text = text.replace(letters, drawn_as)
    return text
