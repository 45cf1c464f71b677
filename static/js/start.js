// The form that starts runs: the filter of its tasks, and an estimate that follows what is chosen.

const form = document.querySelector("form[data-start]");
const filter = form.querySelector("[data-task-filter]");
const PAUSE_MS = 250;

function shownTasks() {
  return [...form.querySelectorAll(".task-pick:not([hidden]) label[data-task]:not([hidden]) input")];
}

function applyFilter() {
  const words = filter.querySelector("[data-find]").value.toLowerCase().split(/\s+/).filter(Boolean);
  const category = filter.querySelector("[data-category]").value;
  const track = filter.querySelector("[data-track]").value;
  for (const operator of form.querySelectorAll(".task-pick")) {
    const title = operator.querySelector("b").textContent.toLowerCase();
    let some = false;
    for (const task of operator.querySelectorAll("label[data-task]")) {
      const text = `${title} ${task.dataset.task}`;
      task.hidden = (track && task.dataset.track !== track) || !words.every((word) => text.includes(word));
      some ||= !task.hidden;
    }
    operator.hidden = !some || (category && operator.dataset.category !== category);
  }
  form.querySelector("[data-no-task]").hidden = shownTasks().length > 0;
}

let waiting;
let asked = 0;

async function updateEstimate() {
  const data = new FormData(form);
  data.set("estimate", "1");
  const number = ++asked;
  const answer = await fetch(form.action, { method: "POST", body: data });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = page.querySelector("[data-estimate]");
  if (found && number === asked) form.querySelector("[data-estimate]").replaceChildren(...found.childNodes);
}

function changed() {
  clearTimeout(waiting);
  waiting = setTimeout(() => updateEstimate().catch(() => {}), PAUSE_MS); // offline: the old one stays
}

form.addEventListener("change", changed);
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("[data-find]")) event.preventDefault();
});
if (filter) {
  for (const name of ["input", "change"]) filter.addEventListener(name, (event) => {
    event.stopPropagation();
    applyFilter();
  });
  const choose = (boxes, checked) => {
    for (const box of boxes) box.checked = checked;
    changed();
  };
  filter.querySelector("[data-all]").addEventListener("click", () => choose(shownTasks(), true));
  filter.querySelector("[data-none]").addEventListener("click", () => choose(form.querySelectorAll("input[name=task]"), false));
}

// A task or an agent that the address chooses is in view of its list.
for (const list of form.querySelectorAll(".task-picks, .picks")) {
  const chosen = list.querySelector(":checked")?.closest(".task-pick, .pick");
  if (chosen) list.scrollTop += chosen.getBoundingClientRect().top - list.getBoundingClientRect().top;
}
