// Scripts of every page: theme toggle, self-applying filters, charts, clocks and live parts.

import { watchBoard } from "./board.js";

const root = document.documentElement;

function toggleTheme() {
  const dark = getComputedStyle(root).colorScheme === "dark" || (
    getComputedStyle(root).colorScheme === "light dark" && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    // Refused storage: the choice lasts for this page.
  }
  document.dispatchEvent(new Event("themechange"));
}

document.querySelector("[data-toggle-theme]")?.addEventListener("click", toggleTheme);

const CHOSEN = "chosen-filter";

function remember(name, value) {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // Refused storage: the next page starts at its top.
  }
}

function remembered(name) {
  try {
    const value = sessionStorage.getItem(name);
    sessionStorage.removeItem(name);
    return value;
  } catch {
    return null;
  }
}

for (const form of document.querySelectorAll("form[data-auto]")) {
  const chosen = remembered(CHOSEN);
  const field = form.elements[chosen]; // keyboard users continue where they were
  const line = form.previousElementSibling?.firstElementChild; // of filters that are closed on a phone
  if (field) (field.offsetParent || !line ? field : line).focus();
  let typed = false; // an arrow key passes over choices: these apply by Enter or the button
  form.addEventListener("keydown", ({ key, target }) => {
    typed = true;
    if (key !== "Enter" || !target.matches("select")) return;
    remember(CHOSEN, target.name);
    form.requestSubmit();
  });
  form.addEventListener("pointerdown", () => (typed = false));
  form.addEventListener("change", ({ target }) => {
    if (target.type === "search") return; // typed words apply by themselves
    if (typed) return form.setAttribute("data-pending", "");
    remember(CHOSEN, target.name);
    form.requestSubmit();
  });
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  });
}
addEventListener("pageshow", ({ persisted }) => {
  for (const field of document.querySelectorAll("form[data-auto] :disabled")) field.disabled = false;
  if (!persisted) return;
  for (const form of document.querySelectorAll("form[data-auto]")) {
    form.reset(); // a page that comes back as it was left shows what its address asks for
    form.removeAttribute("data-pending");
  }
});

for (const menu of document.querySelectorAll("details.menu")) {
  addEventListener("click", ({ target }) => {
    if (!menu.contains(target)) menu.open = false;
  });
  menu.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

/** Opens the part of a page that an address names; a phone gets the other parts closed. */
function openNamed() {
  const fold = document.getElementById(location.hash.slice(1))?.closest("details.fold");
  if (fold && !fold.open) fold.open = true;
}
if (matchMedia("(max-width: 44rem)").matches) for (const fold of document.querySelectorAll("details.fold")) fold.open = false;
openNamed();
addEventListener("hashchange", openNamed);

function tick() {
  for (const clock of document.querySelectorAll("[data-clock][data-since]")) {
    const seconds = Math.max(0, Math.round((Date.now() - Date.parse(clock.dataset.since)) / 1000));
    const rest = String(seconds % 60).padStart(2, "0");
    clock.textContent = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${rest} s`;
  }
}
setInterval(tick, 1000);

if (document.querySelector("[data-chart]")) import("./charts.js").then((charts) => charts.start());
if (document.querySelector("[data-live]")) watchBoard();
for (const svg of document.querySelectorAll("[data-curve]")) import("./curve.js").then((curve) => curve.watchCurve(svg));
if (document.querySelector("[data-fragment]")) import("./fragments.js").then((fragments) => fragments.watchFragments());
if (document.querySelector("form[data-search]")) import("./search.js").then((search) => search.watchSearches());
