"""Export and import of judged runs."""
