#!/usr/bin/env python
"""Django's command line for the arena."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    if "--until-done" in sys.argv:  # works in this process: no server, no queue, no workers
        os.environ["ARENA_HEADLESS"] = "1"
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
