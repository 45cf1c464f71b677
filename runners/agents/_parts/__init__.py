"""Parts that several agents share: settings, waits, streams of events, tunables."""
