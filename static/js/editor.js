// The editor of a draft's file: problems of the whole draft appear while somebody types.

const PAUSE_MS = 400;
const form = document.querySelector("form[data-editor]");

function link(path) {
  const url = new URL(location.href);
  url.searchParams.set("path", path);
  const anchor = document.createElement("a");
  anchor.href = url.pathname + url.search;
  anchor.className = "mono";
  anchor.textContent = path;
  return anchor;
}

function render(problems) {
  const box = document.createElement("div");
  box.className = problems.length ? "message" : "note";
  const head = document.createElement("p");
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  head.textContent = problems.length ? `${count} in the draft:` : "The files of the draft can be read without problems.";
  box.append(head);
  if (problems.length) {
    const list = document.createElement("ul");
    list.className = "problems";
    for (const { path, message } of problems) {
      const item = document.createElement("li");
      if (path) item.append(link(path), ": ");
      item.append(message);
      list.append(item);
    }
    box.append(list);
  }
  document.querySelector("[data-problems]").replaceChildren(box);
}

let asked = 0;

async function validate() {
  const number = ++asked;
  const answer = await fetch(form.dataset.validate, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRFToken": form.elements.csrfmiddlewaretoken.value },
    body: JSON.stringify({ path: form.dataset.path, text: form.elements.text.value }),
  });
  if (!answer.ok || number !== asked) return;
  render((await answer.json()).problems);
}

let waiting;
let changed = false;

function typed() {
  changed = true;
  clearTimeout(waiting);
  waiting = setTimeout(() => validate().catch(() => {}), PAUSE_MS); // offline: the old problems stay
}

if (form) {
  form.elements.text.addEventListener("input", typed);
  form.addEventListener("submit", () => { changed = false; });
  addEventListener("beforeunload", (event) => { if (changed) event.preventDefault(); });
  import("./code.js").then(({ replaceTextarea }) => replaceTextarea(form.elements.text, form.dataset.path))
    .catch(() => {}); // an old browser keeps the text area
}
