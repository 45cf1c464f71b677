"""Source files of submissions: highlighted, and compared, within a limit of time."""
