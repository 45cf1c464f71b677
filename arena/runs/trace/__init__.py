"""Events of a run: schema, storage, redaction, and delivery to open pages."""
