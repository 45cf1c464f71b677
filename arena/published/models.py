"""Tables of evidence that comes with the project, other than runs.

A file is loaded whole: when it changes, its rows are replaced. Sources of others are not stored,
only their hash and address.
"""

from __future__ import annotations

import re
from typing import Any

from django.db import models
from django.urls import reverse

from arena.catalog.models import one_of
from arena.published.outcomes import (
    NO_VERDICT,
    OUTCOMES,
    RIGHT_AT_SUITE_SIZE,
    RULES,
    UNDECIDED,
    Described,
    Outcome,
    Status,
    Undecided,
    outcome_of,
    same_device,
)

RULE = re.compile(r"([a-z][a-z_ -]{0,40}): ")
"""The beginning of a message that names a rule of the judge."""
CUDA_ADVICE = "Compile with `TORCH_USE_CUDA_DSA`"
"""The end of a message of PyTorch about an error of CUDA, which the message names at its start."""


class PublishedFile(models.Model):
    """A loaded file; `collections` has title, address, commit and licence by slug."""

    name = models.CharField(max_length=100, unique=True)
    digest = models.CharField(max_length=64)
    judge_version = models.CharField(max_length=50)
    command = models.TextField(blank=True)
    device = models.CharField(max_length=100, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    fingerprint: Any = models.JSONField(default=dict, blank=True)
    collections: Any = models.JSONField(default=dict, blank=True)
    loaded_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PublishedKernel(models.Model):
    """A kernel that was published elsewhere with a claim, and the verdict on it.

    The id is a hash of what the collection calls it, so that a link stays when a file is replaced.
    `claimed_right` is None where the collection does not state it. A file that was continued has
    verdicts of several versions of the judge.
    """

    id = models.CharField(max_length=12, primary_key=True)
    file = models.ForeignKey(PublishedFile, models.CASCADE, related_name="kernels")
    collection = models.CharField(max_length=100)
    model = models.CharField(max_length=100)
    suite = models.CharField(max_length=60)
    level = models.CharField(max_length=20, blank=True)
    problem = models.CharField(max_length=100)
    task = models.CharField(max_length=120, blank=True, db_index=True)
    sample = models.CharField(max_length=100, blank=True)
    sha256 = models.CharField(max_length=64)
    source = models.URLField(max_length=500)
    language = models.CharField(max_length=20)
    claimed_right = models.BooleanField(null=True, blank=True)
    claimed_speedup = models.FloatField(null=True, blank=True)
    claimed_hardware = models.CharField(max_length=100, blank=True)
    claimed_baseline = models.CharField(max_length=200, blank=True)
    status = models.CharField(max_length=12)
    reason = models.CharField(max_length=200, blank=True)
    message = models.TextField(blank=True)
    gate = models.CharField(max_length=20, blank=True)
    broke_at = models.TextField(blank=True)
    speedup = models.FloatField(null=True, blank=True)
    low = models.FloatField(null=True, blank=True)
    high = models.FloatField(null=True, blank=True)
    noisy = models.BooleanField(default=False)
    hidden_speedup = models.FloatField(null=True, blank=True)
    precision_rule = models.CharField(max_length=20, blank=True)
    right_by = models.JSONField(null=True, blank=True)
    """Rules by which it is right at the suite's size; null where the judge noted none."""
    seconds = models.FloatField(null=True, blank=True)
    judge_version = models.CharField(max_length=50)

    class Meta:
        ordering = ["pk"]
        constraints = [one_of("status", Status, "published_kernel_status_known")]

    def __str__(self) -> str:
        return f"{self.model}: {self.suite} {self.level}/{self.problem}"

    def get_absolute_url(self) -> str:
        return reverse("claim", args=[self.pk])

    @property
    def name(self) -> str:
        """Return the name of its task, and else of its problem."""
        return self.task or f"{self.suite} {self.level}/{self.problem}"

    @property
    def outcome(self) -> Outcome:
        return outcome_of(self.status, self.claimed_speedup, self.speedup, self.high)

    @property
    def described(self) -> Described:
        return OUTCOMES[self.outcome]

    @property
    def why(self) -> str:
        """Return the reason of its verdict; of a forbidden kernel the rule that it breaks."""
        if self.undecided:
            return self.undecided.label
        rule = RULE.match(self.message) if self.status == Status.FORBIDDEN else None
        return rule[1] if rule else self.reason

    @property
    def undecided(self) -> Undecided | None:
        """Return why this judge could not decide; None for a verdict."""
        return None if self.is_judged else UNDECIDED.get(self.reason)

    @property
    def shown_message(self) -> str:
        """Return the message of its verdict; earlier judges kept advice in the place of errors."""
        if not self.message.startswith(CUDA_ADVICE):
            return self.message
        return "A CUDA error in a launch or a copy. This judge kept no more of its text."

    @property
    def is_judged(self) -> bool:
        return self.status not in NO_VERDICT

    @property
    def is_right(self) -> bool:
        """Return whether it is right at any size."""
        return self.status == Status.PASSED

    @property
    def is_right_at_suite_size(self) -> bool:
        return self.status in RIGHT_AT_SUITE_SIZE

    @property
    def is_right_for_suite_alone(self) -> bool:
        return self.status == Status.SUITE_RIGHT

    @property
    def shown_status(self) -> str:
        return self.described.label if self.is_right_for_suite_alone else self.status

    @property
    def rules(self) -> str:
        """Return the rules of precision by which it is right at the suite's size, in words."""
        return ", ".join(RULES.get(rule, rule) for rule in self.right_by or ()) or "none"

    @property
    def is_claimed_right(self) -> bool:
        """Return whether it is published as right; a claimed ratio alone states that too."""
        return self.claimed_right is True or (
            self.claimed_right is None and self.claimed_speedup is not None
        )

    @property
    def is_on_other_device(self) -> bool:
        """Return whether the claim is known to be of another model of device."""
        return same_device(self.claimed_hardware, self.file.device) is False

    @property
    def published_by(self) -> dict[str, Any]:
        """Return title, address, commit and licence of its collection, as far as known."""
        found = self.file.collections.get(self.collection)
        return found if isinstance(found, dict) else {}

    @property
    def collection_title(self) -> str:
        return str(self.published_by.get("title") or self.collection)


class PublishedVerdict(models.Model):
    """A verdict of a benchmark of this project on a kernel for one of its tasks, or on several.

    It is no run: it has no trace, and boards do not count it. Kernels `together` replace several
    modules of one model, and `operator` is the name of its architecture. `slug` is a hash of what
    its file calls it, so that a link stays when the file is replaced. `agent` is the title of who
    made the kernel, `made_by` the slug of the agent where there is one. `setting` states what
    differs from the task, such as fewer layers. `speedup` is that of the whole model on a
    production task. `machine` has what was recorded of the machine: card, software, judge's
    source, peaks.
    """

    slug = models.SlugField(max_length=12, unique=True)
    file = models.ForeignKey(PublishedFile, models.CASCADE, related_name="verdicts")
    operator = models.CharField(max_length=100, db_index=True)
    track = models.CharField(max_length=60)
    together = models.BooleanField(default=False)
    agent = models.CharField(max_length=100)
    made_by = models.CharField(max_length=100, blank=True)
    judge_version = models.CharField(max_length=50)
    judged_at = models.DateTimeField(null=True, blank=True)
    task_hash = models.CharField(max_length=64, blank=True)
    scope = models.CharField(max_length=20)
    setting = models.CharField(max_length=200, blank=True)
    verdict = models.CharField(max_length=20)
    reason = models.CharField(max_length=200, blank=True)
    message = models.TextField(blank=True)
    noisy = models.BooleanField(default=False)
    alone = models.FloatField(null=True, blank=True)
    speedup = models.FloatField(null=True, blank=True)
    low = models.FloatField(null=True, blank=True)
    high = models.FloatField(null=True, blank=True)
    unseen_speedup = models.FloatField(null=True, blank=True)
    machine: Any = models.JSONField(default=dict, blank=True)
    detail: Any = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["operator", "track", "agent", "-judged_at"]

    def __str__(self) -> str:
        return f"{self.agent} on {self.operator}/{self.track}"

    def get_absolute_url(self) -> str:
        return reverse("published-verdict", args=[self.slug])
