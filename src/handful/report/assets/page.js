// Draws the charts whose specifications stand in the page, and gives the buttons something to do.
// On the page colours are variables of the style: a theme or a printer changes them without drawing again.

const data = JSON.parse(document.getElementById("data").textContent);
const options = { mode: "vega-lite", renderer: "svg", actions: false, tooltip: { theme: "custom" } };
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const pressed = (button) => button.getAttribute("aria-pressed") === "true";

// A specification with variables for colours and without a legend, which is made of buttons.
function onPage(spec) {
  return JSON.parse(JSON.stringify(spec), (key, value) => (value?.orient === "bottom" ? null : data.colors[value] ?? value));
}

async function show(chart, view, place) {
  const plot = place.querySelector(".plot"), keys = all(".legend button", place);
  if (plot.dataset.drawn) return;
  plot.dataset.drawn = "yes";
  const across = () => Math.max(1, plot.clientWidth - 60);  // about what the axes leave
  const params = data.shared.params.map((one) => (one.name === "across" ? { ...one, value: across() } : one));
  const spec = { ...data.shared, params, ...view.spec, width: "container", padding: 2, background: null };
  if (!chart.together) delete spec.title;
  const drawn = (await vegaEmbed(plot, onPage(spec), options)).view;
  new ResizeObserver(() => plot.clientWidth && drawn.signal("across", across()).runAsync()).observe(plot);
  const hide = () => drawn.signal("hidden", keys.filter((key) => !pressed(key)).map((key) => key.dataset.name)).runAsync();
  for (const key of keys)
    key.addEventListener("click", () => { key.setAttribute("aria-pressed", String(!pressed(key))); hide(); });
}

// -- files: light, with title and legend ------------------------------------------------------------------------------

function whole(chart, view) {
  if (!chart.together) return { ...data.shared, ...view.spec };
  const title = { text: chart.title, offset: 16 };
  return { ...data.shared, title, columns: chart.columns, concat: chart.views.map((one) => one.spec) };
}

const quoted = (cell) => (/[",\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell);

function chartCsv(chart) {
  const lines = [["view", "x axis", "y axis", "series", "x", "y", "low", "high"]];
  for (const view of chart.views)
    for (const layer of view.spec.layer.filter((one) => one.layer))
      for (const p of layer.data.values) lines.push([view.name, ...view.axes, p.name, p.x, p.y, p.low, p.high]);
  return lines.map((cells) => cells.map((cell) => quoted(String(cell ?? ""))).join(",") + "\n").join("");
}

async function save(chart, view, kind) {
  const link = document.createElement("a");
  const address = (text, type) => URL.createObjectURL(new Blob([text], { type }));
  link.download = `${kind === "csv" ? chart.views[0].file : view.file}.${kind}`;
  if (kind === "csv") link.href = address(chartCsv(chart), "text/csv");
  else {
    const { view: drawn } = await vegaEmbed(document.createElement("div"), whole(chart, view), options);
    link.href = kind === "svg" ? address(await drawn.toSVG(), "image/svg+xml") : await drawn.toImageURL("png", 2);
    drawn.finalize();
  }
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// -- the page ---------------------------------------------------------------------------------------------------------

async function build(figure) {
  const chart = data.charts[Number(figure.dataset.chart)];
  const places = all(".view", figure), switches = all(".switch", figure);
  switches.forEach((button, at) => button.addEventListener("click", () => {
    switches.forEach((one, i) => one.setAttribute("aria-pressed", String(i === at)));
    places.forEach((one, i) => { one.hidden = i !== at; });
    show(chart, chart.views[at], places[at]);
  }));
  for (const button of all("[data-save]", figure))
    button.addEventListener("click", () => save(chart, chart.views[Math.max(0, switches.findIndex(pressed))], button.dataset.save));
  for (const [at, place] of places.entries()) if (!place.hidden) await show(chart, chart.views[at], place);
}

async function copy(button) {
  const text = button.parentElement.querySelector("pre").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy"; }, 1500);
}

const overflow = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const more = target.scrollWidth > target.clientWidth + 1;
    target.parentElement.classList.toggle("more", more);
    if (more) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

for (const one of all(".scroll")) overflow.observe(one);
for (const button of all(".copy")) button.addEventListener("click", () => copy(button));
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = (root.dataset.theme ?? (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
});
for (const figure of all("figure[data-chart]")) await build(figure);
document.documentElement.dataset.ready = "yes";
