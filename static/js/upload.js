// Uploads of a folder: the browser sends base names alone, so their paths travel beside them.

for (const form of document.querySelectorAll("form[data-upload]")) {
  form.addEventListener("formdata", ({ formData }) => {
    const chosen = [...form.elements.folder.files];
    if (!chosen.length) formData.delete("folder");
    for (const file of chosen) formData.append("paths", file.webkitRelativePath);
    if (!form.elements.archive.files.length) formData.delete("archive");
  });
}
