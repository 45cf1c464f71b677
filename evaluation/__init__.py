"""The judge: a pure library that turns source files and a task into gate results and measurements."""

JUDGE_VERSION = "1"
