"""Description of a task: its brief, its source in the library, and facts of its model."""
