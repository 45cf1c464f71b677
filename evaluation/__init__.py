"""The judge: a library that turns sources and a task into gate results and measurements."""

JUDGE_VERSION = "3"
