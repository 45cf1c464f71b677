// Draws the figures of a page anew with Plotly, which is loaded when the first of them comes into
// view: it adds details under the pointer to what the server has drawn.
//
// A figure holds its data as JSON whose colours are custom properties of the stylesheet; they are
// resolved here, and again when the theme changes. On paper they are those of the light theme.
// An axis may have other values for a narrow plot, as on a phone.

const BUNDLE = new URL("../vendor/plotly/plotly-cartesian.min.js", import.meta.url);
// The bundle carries the style sheet of a map library and adds it as an inline style, which the
// content security policy refuses, unless an element of this id is there. No chart here is a map.
const UNUSED_STYLE = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";
const CONFIG = { displayModeBar: false, responsive: true };
const NARROW_PX = 480;
const drawn = new Set();
let loading;
let onPaper = false;

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const unused = document.createElement("meta");
    unused.id = UNUSED_STYLE;
    const script = document.createElement("script");
    script.src = BUNDLE;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("the chart library did not load"));
    document.head.append(unused, script);
  });
  return loading;
}

function resolveColours(value, probe) {
  if (typeof value === "string" && value.startsWith("var(")) {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  }
  if (Array.isArray(value)) return value.map((item) => resolveColours(item, probe));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolveColours(item, probe)]));
  }
  return value;
}

/** Opens the page of a clicked point, where a figure gives addresses of this site. */
function openPoint({ points: [point] }) {
  if (typeof point?.customdata === "string" && point.customdata.startsWith("/")) location.assign(point.customdata);
}

async function draw(figure) {
  const plot = figure.querySelector(".plot");
  try {
    const Plotly = await plotly();
    if (!plot.isConnected) return;
    const probe = document.body.appendChild(document.createElement("i"));
    if (onPaper) probe.style.colorScheme = "light";
    const { data, layout } = resolveColours(JSON.parse(figure.querySelector("script").textContent), probe);
    probe.remove();
    const narrow = plot.clientWidth < NARROW_PX;
    for (const axis of [layout.xaxis, layout.yaxis]) if (narrow) Object.assign(axis, axis.narrow);
    layout.font.family = getComputedStyle(document.body).fontFamily;
    plot.querySelector(".drawing")?.remove(); // the server's, which has stood in its place
    await Plotly.react(plot, data, layout, CONFIG);
    if (!drawn.has(figure)) plot.on("plotly_click", openPoint);
    drawn.add(figure);
  } catch (error) {
    console.warn(`No chart: ${error.message}`);
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    draw(target);
  }
}, { rootMargin: "200px" });

export function start(part = document) {
  for (const figure of part.querySelectorAll("[data-chart]")) seen.observe(figure);
}

/** Gives a figure that stays on the page the caption and data of a fresh one. */
export function update(figure, fresh) {
  const before = figure.querySelector("script").textContent;
  const after = fresh.querySelector("script").textContent;
  figure.querySelector("figcaption").replaceWith(fresh.querySelector("figcaption"));
  if (before === after) return;
  figure.querySelector("script").textContent = after;
  if (drawn.has(figure)) draw(figure);
}

function redraw() {
  for (const figure of drawn) figure.isConnected ? draw(figure) : drawn.delete(figure);
}
document.addEventListener("themechange", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

/** Redraws for print or for the screen, at once because printing does not wait. */
function print(begins) {
  if (onPaper === begins) return;
  onPaper = begins;
  redraw();
}
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
matchMedia("print").addEventListener("change", ({ matches }) => print(matches));
