"""Live pages: what a web process sends to the sockets of open pages."""
