"""All writes to drafts: made, changed, reviewed, published and discarded."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from arena import sockets
from arena.accounts.models import User
from arena.audit.services import record
from arena.catalog import services as catalog
from arena.catalog.models import Operator, Task, TaskVersion
from arena.catalog.sync import publish_folder
from arena.catalog.task_folders import hash_of
from arena.curation import files as folders
from arena.curation.models import OPEN, Check, CheckStatus, CheckStep, Draft, DraftState, Review
from arena.curation.starter import starter_draft
from arena.curation.validation import Problem, problems_of, targets_of
from arena.errors import Conflict, Forbidden, Link, NotFound, UserError
from evaluation.errors import TaskError
from evaluation.tasks.spec import FITTED, folder_of

MAX_COMMENT = 5_000
CLOSED = "This draft is closed.", "Make a new one of the published version."


def create_from_form(user: User, name: str, title: str) -> Draft:
    """Create a draft of a small task that works. Raises UserError."""
    folders.check_name(name)
    title = folders.check_title(title)
    return create(user, {name: starter_draft(name, title)}, "the form")[0]


def create(
    user: User,
    tasks: Mapping[str, Mapping[str, str]],
    origin: str,
    *,
    published: bool = False,
    rename: str = "Choose another name.",
) -> list[Draft]:
    """Create a draft for each task folder; all of them, or none.

    With `published` the names are those of tasks that the drafts change. `rename` is the hint
    where a name is that of another task.

    Raises: UserError for a name that is taken, or files that are no task.
    """
    made = []
    with transaction.atomic():
        for name, files in tasks.items():
            checked = folders.check_files(files)
            known = Operator.objects.filter(slug=folders.check_name(name)).exists()
            if known and not published:
                change = Link(f"{reverse('curate')}?q={name}", "Change that task instead")
                raise Conflict(f"There is a task {name!r} already.", rename, change)
            made.append(_insert(user, name, checked, origin))
    return made


def _insert(user: User, name: str, files: dict[str, str], origin: str) -> Draft:
    try:
        with transaction.atomic():
            draft = Draft.objects.create(
                name=name,
                author=user,
                files=files,
                content_hash=hash_of(files),
                origin=origin[:300],
            )
    except IntegrityError:
        holder = Draft.objects.open().filter(name=name).first()
        by = f" by {holder.author}" if holder else ""
        raise Conflict(
            f"There is an open draft {name!r}{by} already.",
            "Publish or discard it first.",
            Link(holder.get_absolute_url(), "Open that draft") if holder else None,
        ) from None
    record(user, "draft.create", draft, f"From {origin}.", files=len(files))
    return draft


def edit_published(user: User, name: str) -> Draft:
    """Create a draft of the published files of an operator. Raises UserError."""
    files = published_files(name)
    if not files:
        raise NotFound(f"There is no task {name!r}.")
    return create(user, {name: files}, "the published version", published=True)[0]


def published_files(name: str) -> dict[str, str]:
    """Return the files of an operator as workers judge it; empty for an unknown operator."""
    newest = (
        TaskVersion.objects.filter(task__operator__slug=name, folder__imported=False)
        .select_related("folder")
        .first()
    )
    if newest and newest.folder:
        return dict(newest.folder.files)
    if not Operator.objects.filter(slug=name).exists():
        return {}
    try:
        place = folder_of(settings.ARENA_TASKS, name)
    except TaskError:
        return {}
    named = {
        f"{name}/{path.relative_to(place).as_posix()}": path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }
    return folders.folders_of(named.items())[name]


def replace_files(draft: Draft, user: User, files: Mapping[str, str], origin: str) -> None:
    """Replace all files of a draft. Raises UserError."""
    checked = folders.check_files(files)
    with transaction.atomic():
        _change(draft, user, checked)
        record(user, "draft.replace", draft, f"From {origin}.", files=len(checked))


def save_file(draft: Draft, user: User, path: str, text: str, expected_hash: str = "") -> None:
    """Write one file of a draft; `expected_hash` is that of the draft which the user has seen.

    Raises: UserError; Conflict where another person changed the draft.
    """
    folders.check_path(path)
    text = text.replace("\r\n", "\n")  # forms send lines in that way
    folders.check_text(path, text)
    with transaction.atomic():
        current = _locked(draft)
        if expected_hash and current.content_hash != expected_hash:
            raise Conflict(
                "The draft has changed since you opened this file.",
                "Copy your text, open the file again and repeat the change.",
            )
        if current.files.get(path) == text:
            return
        _change(draft, user, folders.check_files({**current.files, path: text}))
        record(user, "draft.edit", draft, path)


def remove_file(draft: Draft, user: User, path: str) -> None:
    """Remove one file of a draft. Raises NotFound, Conflict."""
    with transaction.atomic():
        current = _locked(draft)
        if path not in current.files:
            raise NotFound(f"There is no file {path!r}.")
        kept = {name: text for name, text in current.files.items() if name != path}
        _change(draft, user, kept)
        record(user, "draft.remove", draft, path)


def fitted(draft: Draft) -> dict[str, str] | None:
    """Return what the newest fit of the present files found: `text` and `summary`; None before."""
    steps = CheckStep.objects.filter(
        check_of__draft=draft,
        check_of__content_hash=draft.content_hash,
        check_of__status=CheckStatus.PASSED,
        check_of__fits=True,
        body__type="fitted",
    )
    found: dict[str, str] | None = steps.order_by("-pk").values_list("body", flat=True).first()
    return found


def fit_problem(draft: Draft) -> Problem | None:
    """Return the problem in a file that the newest fit of the present files found."""
    fits = Check.objects.filter(draft=draft, content_hash=draft.content_hash, fits=True)
    newest = fits.order_by("-pk").first()
    if newest is None or newest.status != CheckStatus.FAILED:
        return None
    path, _, message = newest.message.partition(": ")
    return Problem(path, message) if path in draft.files else None


def use_fit(draft: Draft, user: User) -> None:
    """Write the fitted tolerance as a file of the draft. Raises Conflict without a fit."""
    found = fitted(draft)
    if found is None:
        raise Conflict("No fit of these files has ended.", "Fit the tolerance first.")
    save_file(draft, user, FITTED, str(found["text"]), draft.content_hash)


def _locked(draft: Draft) -> Draft:
    return Draft.objects.select_for_update().get(pk=draft.pk)


def _change(draft: Draft, user: User, files: dict[str, str]) -> None:
    """Store other files, and who changed them; a review of the earlier ones does not count."""
    changed = Draft.objects.filter(pk=draft.pk, state__in=OPEN).update(
        files=files,
        content_hash=hash_of(files),
        state=DraftState.DRAFT,
        updated_at=timezone.now(),
    )
    if not changed:
        raise Conflict(*CLOSED)
    draft.editors.add(user)
    draft.reviewers.remove(user)
    draft.refresh_from_db()


def request_review(draft: Draft, user: User) -> None:
    """Ask a second person to review a draft that its checks have passed. Raises Conflict."""
    if missing := lacking(draft):
        raise Conflict(missing[0])
    _move(draft, user, (DraftState.DRAFT,), DraftState.REVIEW, "draft.request-review")


def add_reviewer(draft: Draft, user: User, name: str) -> User:
    """Choose a user, by name, to review a draft.

    Raises: UserError for who cannot review it; Conflict where nobody has to any more.
    """
    with transaction.atomic():
        locked = _open(draft)
        if locked.state == DraftState.APPROVED:
            raise Conflict("This draft is approved.", "An edit makes it wait for a review again.")
        chosen = locked.possible_reviewers().filter(username=name).first()
        if chosen is None:
            raise UserError(
                f"{name or 'Nobody'} cannot review this draft.",
                "Choose a reviewer or staff who neither wrote nor edited it.",
            )
        draft.reviewers.add(chosen)
        record(user, "draft.add-reviewer", draft, chosen.username)
    return chosen


def remove_reviewer(draft: Draft, user: User, name: str) -> None:
    """Take back the choice of a reviewer. Raises NotFound, Conflict."""
    with transaction.atomic():
        chosen = _open(draft).reviewers.filter(username=name).first()
        if chosen is None:
            raise NotFound(f"{name or 'Nobody'} is not among the reviewers of this draft.")
        draft.reviewers.remove(chosen)
        record(user, "draft.remove-reviewer", draft, chosen.username)


def _open(draft: Draft) -> Draft:
    """Return a draft, locked. Raises Conflict where it is closed."""
    locked = _locked(draft)
    if not locked.is_open:
        raise Conflict(*CLOSED)
    return locked


def lacking(draft: Draft) -> list[str]:
    """Return why a draft cannot be reviewed or published: problems, or checks that are missing."""
    found = [str(problem) for problem in problems_of(draft.name, draft.files)]
    if found:
        return [f"The files have problems: {found[0]}"]
    of_content = draft.checks.filter(content_hash=draft.content_hash, fits=False).order_by("pk")
    ended = (CheckStatus.PASSED, CheckStatus.FAILED)
    newest = {check.hardware_id: check.status for check in of_content if check.status in ended}
    passed = bool(newest) and CheckStatus.FAILED not in newest.values()
    if not passed and any(check.active for check in of_content):
        return [
            "A check of these files is under way. Its page, below, shows the steps as they end."
        ]
    if CheckStatus.FAILED in newest.values():
        return ["A check of these files failed: correct them, or check again."]
    if not newest:
        return ["No check of these files has passed yet: run the checks."]
    return []


def reviewer_problem(draft: Draft, user: User) -> Forbidden | None:
    """Return the error with which a user cannot review a draft; None for who can."""
    if not user.is_reviewer:
        return Forbidden("Only reviewers and staff review drafts.")
    if user.pk == draft.author_id:
        return Forbidden("A draft is reviewed by a second person.", "Ask another reviewer.")
    if draft.editors.contains(user):
        return Forbidden(
            "You edited this draft since its last approval, so you cannot review it.",
            "Ask a reviewer who did not edit it.",
        )
    chosen = draft.chosen_reviewers()
    if chosen.exists() and not chosen.contains(user):
        return Forbidden("Others were chosen to review this draft.", "Add yourself to them.")
    return None


def review(draft: Draft, user: User, content_hash: str, approved: bool, comment: str) -> Review:
    """Approve or return the content that the reviewer has seen.

    An approval makes the editors of the draft eligible again: a second person has read their work.

    Raises: Forbidden for the author, for who edited the files since the last approval, and where
    others were chosen; Conflict for other content; UserError without a comment.
    """
    comment = comment.replace("\0", "").strip()[:MAX_COMMENT]
    state = DraftState.APPROVED if approved else DraftState.DRAFT
    with transaction.atomic():
        if problem := reviewer_problem(_locked(draft), user):
            raise problem
        if not approved and not comment:
            raise UserError("A returned draft needs a comment.", "Say what has to change.")
        waiting = Draft.objects.filter(
            pk=draft.pk, state=DraftState.REVIEW, content_hash=content_hash
        )
        if not waiting.update(state=state, updated_at=timezone.now()):
            raise Conflict("This content is not in review any more.", "Load the page again.")
        made = Review.objects.create(
            draft=draft,
            content_hash=content_hash,
            author_id=draft.author_id,
            reviewer=user,
            approved=approved,
            comment=comment,
        )
        if approved:
            draft.editors.clear()
        action = "draft.approve" if approved else "draft.return"
        record(user, action, draft, comment, content_hash=content_hash)
    draft.refresh_from_db()
    return made


def unjudged(draft: Draft) -> list[str]:
    """Return the tracks of a valid draft that no passed check of its files has admitted."""
    steps = CheckStep.objects.filter(
        check_of__draft=draft,
        check_of__content_hash=draft.content_hash,
        check_of__status=CheckStatus.PASSED,
        body__type="admission",
    )
    judged = {slug.partition("/")[2] for slug in steps.values_list("body__task", flat=True)}
    return [track for track, _ in targets_of(draft.name, draft.files) if track not in judged]


def publish(draft: Draft, user: User) -> list[TaskVersion]:
    """Publish an approved draft as a version that never changes. Raises Forbidden, Conflict."""
    if not user.is_staff:
        raise Forbidden("Only staff publish.")
    if missing := lacking(draft):
        raise Conflict(missing[0])
    with transaction.atomic():
        approved = Review.objects.filter(
            draft=draft, content_hash=draft.content_hash, approved=True
        )
        if not approved.exists():
            raise Conflict("Nobody has approved these files.", "Ask a second person for a review.")
        _move(draft, user, (DraftState.APPROVED,), DraftState.PUBLISHED, "task.publish")
        try:
            versions = publish_folder(draft.name, draft.files, draft.content_hash)
        except TaskError as error:
            raise Conflict(f"The files are no task any more: {error}") from error
        _store_admissions(draft, versions)
        sockets.nudge(sockets.BOARD)
    return versions


def _store_admissions(draft: Draft, versions: list[TaskVersion]) -> None:
    """Store the admissions of the checks with the versions that they judged."""
    found: dict[str, list[dict[str, object]]] = {}
    passed = Check.objects.filter(
        draft=draft, content_hash=draft.content_hash, status=CheckStatus.PASSED
    )
    for check in passed.select_related("hardware"):
        for step in check.steps.filter(body__type="admission"):
            roles = [attempt["role"] for attempt in step.body["attempts"]]
            answers = {role: roles.count(role) for role in ("probe", "mutant", "honest")}
            result: dict[str, object] = {
                "device": check.hardware.name,
                "answers": answers,
                "problems": [],
            }
            found.setdefault(step.body["task_hash"], []).append(result)
    for version in versions:
        if admissions := found.get(version.content_hash):
            catalog.store_admission(
                version.content_hash, {"elsewhere": admissions, "problems": []}, admitted=True
            )


def discard(draft: Draft, user: User) -> None:
    """Close a draft without publishing it. Raises Conflict."""
    _move(draft, user, tuple(map(DraftState, OPEN)), DraftState.DISCARDED, "draft.discard")


def _move(
    draft: Draft, user: User, states: tuple[DraftState, ...], to: DraftState, action: str
) -> None:
    with transaction.atomic():
        seen = Draft.objects.filter(pk=draft.pk, state__in=states, content_hash=draft.content_hash)
        if not seen.update(state=to, updated_at=timezone.now()):
            draft.refresh_from_db()
            raise Conflict(
                f"The draft is {draft.get_state_display().lower()}, or has changed meanwhile.",
                "Load the page again.",
            )
        record(user, action, draft, content_hash=draft.content_hash)
    draft.refresh_from_db()


def set_task_status(task: Task, user: User, status: str, reason: str) -> None:
    """Retire a task or publish it again; both keep its pages. Raises UserError without a reason."""
    reason = reason.replace("\0", "").strip()[:MAX_COMMENT]
    if not user.is_staff:
        raise Forbidden("Only staff retire tasks.")
    if status not in (Task.Status.PUBLISHED, Task.Status.RETIRED):
        raise UserError(f"A task cannot become {status!r} here.")
    if not reason:
        raise UserError("The change needs a reason.", "The audit log shows it.")
    with transaction.atomic():
        before = task.status
        if not Task.objects.filter(pk=task.pk).exclude(status=status).update(status=status):
            raise Conflict(f"{task} is {status} already.")
        action = "task.retire" if status == Task.Status.RETIRED else "task.restore"
        record(user, action, task, reason, before=before)
        sockets.nudge(sockets.BOARD)
    task.refresh_from_db()
