"""Parts that several agents share: settings, streams of events, tunables."""
