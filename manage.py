#!/usr/bin/env python
"""Django's command line for the arena."""

import io
import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    if "--until-done" in sys.argv:  # works in this process: no server, no queue, no workers
        os.environ["ARENA_HEADLESS"] = "1"
    if isinstance(sys.stdout, io.TextIOWrapper):  # a pipe gets each line of progress at once
        sys.stdout.reconfigure(line_buffering=True)
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError, connection

    try:
        execute_from_command_line(sys.argv)
    except (OperationalError, ProgrammingError) as error:
        from django.db.migrations.recorder import MigrationRecorder

        if MigrationRecorder(connection).has_table():
            raise
        begin = "begin with `make arena`, or say with ARENA_HOME or DATABASE_URL where one has"
        sys.exit(f"{error}: no arena has run here yet; {begin}")


if __name__ == "__main__":
    main()
