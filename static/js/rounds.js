// The scrubber of rounds: the page of the chosen round takes the place of the one that is shown.

const content = document.getElementById("content");
let asked = 0;

async function show(number) {
  const wanted = (asked += 1);
  const address = new URL(`../${number}/`, location.href);
  try {
    const answer = await fetch(address);
    if (!answer.ok || wanted !== asked) return; // another round was chosen meanwhile
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (wanted !== asked) return;
    content.replaceChildren(...page.getElementById("content").childNodes);
    document.title = page.title;
    history.replaceState(null, "", address);
    content.querySelector("[data-scrub]").focus({ preventScroll: true });
  } catch {
    location.assign(address);
  }
}

content.addEventListener("input", ({ target }) => target.matches("[data-scrub]") && show(target.value));
