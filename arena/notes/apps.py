from django.apps import AppConfig


class NotesConfig(AppConfig):
    name = "arena.notes"
