"""The judge: a library that turns sources and a task into gate results and measurements."""

JUDGE_VERSION = "13"
"""Version of verdicts. Those of different versions may differ slightly; pages name it."""
OLDEST_ADMISSION = "3"
"""Admissions by this version and later ones hold: what they check has not changed since."""
