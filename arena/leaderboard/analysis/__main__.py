"""Reads a pickled sample from standard input and writes its pickled statistics.

`background` runs it, in a process of its own that ends: the libraries take a second to load and
150 MB, and arithmetic of seconds would hold up the requests of a web process.
"""

from __future__ import annotations

import os
import pickle
import sys

from evaluation.sandbox.syscalls import die_with_parent

NICENESS = 10

if __name__ == "__main__":
    die_with_parent()  # nobody would read what it writes
    os.nice(NICENESS)
    from arena.leaderboard.analysis.statistics import statistics  # loads the libraries

    pickle.dump(statistics(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
