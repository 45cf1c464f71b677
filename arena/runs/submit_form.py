"""Form that submits a kernel without an agent."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from arena.catalog.models import Hardware, Task, Worker
from arena.catalog.near_tasks import MAX_NEAR, hint_of, near_tasks
from arena.runs.services.evaluations import MAX_FILES_BYTES
from arena.runs.states import Scope, Visibility
from arena.text import PROBLEM, is_storable


class SubmitForm(forms.Form):
    """A task, the text of its target file, and the verdict to judge it with."""

    task = forms.CharField(
        max_length=200,
        widget=forms.TextInput({"list": "tasks", "autocomplete": "off", "spellcheck": "false"}),
        help_text="Type a part of its name, such as rms_norm or torch-to-cuda, and choose one.",
    )
    source = forms.CharField(
        required=False,
        strip=False,
        max_length=MAX_FILES_BYTES,
        label="Source code",
        widget=forms.Textarea({"rows": 18, "spellcheck": "false", "class": "mono", "wrap": "off"}),
    )
    upload = forms.FileField(
        required=False, label="Or upload a file", help_text="One source file of at most 1 MB."
    )
    scope = forms.ChoiceField(
        label="Verdict",
        choices=[
            (Scope.FINAL, "Final: public and held-out cases. It ranks on the board of kernels."),
            (Scope.ROUND, "Quick: public cases only."),
        ],
        initial=Scope.FINAL,
        widget=forms.RadioSelect,
    )
    hardware = forms.ChoiceField(required=False, label="Judged on")
    visibility = forms.ChoiceField(
        label="Visible to",
        choices=[(Visibility.PUBLIC, "everyone"), (Visibility.OWNER, "me and staff")],
        initial=Visibility.PUBLIC,
    )
    label = forms.CharField(
        required=False, max_length=100, label="Name", help_text="Shown beside the kernel. Optional."
    )

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.tasks = list(Task.objects.runnable().select_related("operator"))
        served = Worker.objects.queues()
        devices = [
            (device.slug, device.name + ("" if device.queue in served else ", no worker ready"))
            for device in Hardware.objects.order_by("name")
        ]
        # A browser would cut a longer text without a word; here it is refused.
        self.fields["source"].widget.attrs.pop("maxlength", None)
        field: Any = self.fields["hardware"]
        field.choices = [("", "Auto: a device with a worker, else one of the kind"), *devices]

    def clean_task(self) -> str:
        slug: str = self.cleaned_data["task"].strip()
        known = [task.slug for task in self.tasks]
        if slug in known:
            return slug
        found = [each for each in known if slug in each]
        if len(found) == 1:
            return found[0]
        if found:
            some = ", ".join(near_tasks(slug, found)[:MAX_NEAR])
            raise ValidationError(f"{len(found)} tasks have this in their name: {some}. Name one.")
        raise ValidationError(f"There is no task {slug!r}. {hint_of(slug)}")

    def clean_upload(self) -> str:
        upload = self.cleaned_data["upload"]
        if not upload:
            return ""
        if upload.size > MAX_FILES_BYTES:
            raise ValidationError(f"This file has {upload.size:,} bytes; 1,000,000 are allowed.")
        try:
            return str(upload.read().decode())
        except UnicodeDecodeError:
            raise ValidationError("This file is not text in UTF-8.") from None

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        pasted, uploaded = cleaned.get("source", ""), cleaned.get("upload", "")
        if "source" in self.errors or "upload" in self.errors:
            return cleaned
        if pasted.strip() and uploaded:
            self.add_error("upload", "Paste the source or upload a file, not both.")
        elif not (pasted.strip() or uploaded.strip()):
            self.add_error("source", "Paste the source of the kernel, or upload a file.")
        elif problem := self._wrong_ending():
            self.add_error("upload", problem)
        elif not is_storable(text := uploaded or pasted):
            self.add_error("upload" if uploaded else "source", PROBLEM)
        else:
            cleaned["source"] = text.replace("\r\n", "\n")
        return cleaned

    def _wrong_ending(self) -> str:
        """Return why the task takes no file of this name; empty if it does, or none is uploaded."""
        slug, upload = self.cleaned_data.get("task"), self.files.get("upload")
        version = next((task.version for task in self.tasks if task.slug == slug), None)
        if not (upload and version):
            return ""
        target = PurePath(version.public["target_file"])
        if PurePath(str(upload.name)).suffix == target.suffix:
            return ""
        return f"{slug} takes a file that ends in {target.suffix}, such as {target}."

    def submission(self) -> dict[str, Any]:
        """Return the arguments of `services.submit_kernel` from a valid form."""
        values = self.cleaned_data
        return {
            "task_slug": values["task"],
            "source": values["source"],
            "hardware_slug": values["hardware"] or None,
            "label": values["label"],
            "scope": values["scope"],
            "visibility": values["visibility"],
        }
