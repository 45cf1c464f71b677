from django.apps import AppConfig, apps


class AuditConfig(AppConfig):
    name = "arena.audit"

    def ready(self) -> None:
        if apps.is_installed("django.contrib.admin"):
            from arena.audit import admin_history

            admin_history.connect()
