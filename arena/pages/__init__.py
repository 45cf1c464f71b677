"""The pages: views that parse, read and render, one module for each page, as in templates/."""
