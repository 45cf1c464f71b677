from django.apps import AppConfig
from django.db.models.signals import m2m_changed, post_migrate


class AccountsConfig(AppConfig):
    name = "arena.accounts"

    def ready(self) -> None:
        from arena.accounts.models import User
        from arena.accounts.roles import create_roles, follow_membership

        post_migrate.connect(create_roles)
        m2m_changed.connect(follow_membership, sender=User.groups.through)
