"""Child processes: started, supervised, and ended with everything they started."""
