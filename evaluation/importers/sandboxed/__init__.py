"""UNTRUSTED: the code that runs a suite's own files. It is only ever started in the sandbox."""
