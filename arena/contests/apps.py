from django.apps import AppConfig


class ContestsConfig(AppConfig):
    name = "arena.contests"
