"""Charts of pages as drawings, files and cards."""
