"""Files of a problem: its source, and the cases that another file gives."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Files:
    """The texts of a problem's files."""

    source: str
    cases: str = ""
    """Empty for a suite whose sources have their own cases."""

    @property
    def sha256(self) -> str:
        """Return the hash of all texts; without cases, that of the source."""
        text = f"{self.source}\0{self.cases}" if self.cases else self.source
        return hashlib.sha256(text.encode()).hexdigest()
