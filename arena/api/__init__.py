"""The API: a router for each subject, and error responses in root."""
