"""Workers: dramatiq actors, the judge as a child process, one measurement per device at a time."""
