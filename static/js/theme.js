// Runs before the first paint: says that scripts run, and applies the theme that was chosen here.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch {
    // Storage may be refused; the system's preference then decides.
  }
})();
