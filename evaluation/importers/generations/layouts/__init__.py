"""Layouts of collections: a module of this folder is one form in which sources are published."""
