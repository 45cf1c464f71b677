"""From sources to what is loaded: compilers, each in the sandbox, and a cache named by content."""
