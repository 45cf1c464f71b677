"""Memory shared between the judge and the processes it measures."""
