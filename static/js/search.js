// Narrows a list while its user types: the list is fetched again with the words of the form.

const WAIT_MS = 200;

function watch(form) {
  const fields = [...form.querySelectorAll("input[type=search]")];
  let waiting;
  let asked = 0;
  const narrow = () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const number = (asked += 1);
      const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
      const address = `${location.pathname}?${query}`;
      try {
        const answer = await fetch(address);
        if (!answer.ok || number !== asked) return; // a newer request is under way
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const id of [form.dataset.search, "in-force"]) {
          const fresh = page.getElementById(id);
          if (fresh) document.getElementById(id).replaceChildren(...fresh.childNodes);
        }
        history.replaceState(null, "", address);
        for (const field of fields) field.defaultValue = query.get(field.name) ?? "";
      } catch {
        // The server is not reachable; Enter submits the form.
      }
    }, WAIT_MS);
  };
  form.addEventListener("input", ({ target }) => {
    if (target.type === "search") narrow();
  });
  if (fields.some((field) => field.value !== field.defaultValue)) narrow(); // typed before this was loaded
}

export function watchSearches() {
  document.querySelectorAll("form[data-search]").forEach(watch);
}
