"""Repository tasks: the tests and the benchmark of a repository judge changes of its files."""
