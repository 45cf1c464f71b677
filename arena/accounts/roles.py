"""Roles as Django groups: reviewers, and staff with the rights of the admin.

`migrate` creates both groups, and a migration that adds a model adds its rights. A member of the
group of staff is staff: `is_staff` follows the membership.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.contrib.auth.models import Group, Permission
from django.db.models import Q

from arena.accounts.models import REVIEWERS, STAFF, User

OWN_APP = "accounts"
IN_OWN_APP = ("view_user", "view_apitoken", "delete_apitoken", "use_models")
"""Rights of staff on accounts: whoever can change a user can make themselves a superuser."""


def create_roles(sender: AppConfig, using: str, **more: Any) -> None:
    """Create the groups after a migration of an app of the arena, and grant the rights on it."""
    if not sender.name.startswith("arena."):
        return
    Group.objects.using(using).get_or_create(name=REVIEWERS)
    staff, _ = Group.objects.using(using).get_or_create(name=STAFF)
    rights = Permission.objects.using(using).filter(content_type__app_label=sender.label)
    if sender.label == OWN_APP:
        rights = rights.filter(codename__in=IN_OWN_APP)
    staff.permissions.add(*rights)


def follow_membership(
    instance: User | Group, action: str, reverse: bool, pk_set: set[int] | None, **more: Any
) -> None:
    """Set `is_staff` of the users who join or leave the group of staff."""
    if action not in ("post_add", "post_remove", "pre_clear"):
        return
    staff = Group.objects.filter(name=STAFF).first()
    if staff is None:
        return
    if reverse:  # of a group, its users
        of_staff = instance.pk == staff.pk
        users = Q(pk__in=pk_set) if pk_set is not None else Q(groups=staff)
    else:  # of a user, their groups
        of_staff = staff.pk in pk_set if pk_set is not None else True
        users = Q(pk=instance.pk) if pk_set is not None else Q(pk=instance.pk, groups=staff)
    if of_staff:
        found = User.objects.filter(users)
        changed = found.filter(is_superuser=False) if action != "post_add" else found
        changed.update(is_staff=action == "post_add")
