"use strict";
// Draws the charts whose data stand in the page, and gives them and the tables their buttons. Colours are CSS variables,
// so that a theme or a printer changes them without drawing again; a saved file has those of the light theme.

const charts = JSON.parse(document.getElementById("charts").textContent);
const slug = (text) => text.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").toLowerCase() || "chart";
const known = (v) => v !== null && v !== undefined;
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

function node(name, attributes = {}, ...inner) {
  const out = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) out.addEventListener(key.slice(2), value);
    else out.setAttribute(key, value);
  }
  out.append(...inner);
  return out;
}

// -- numbers and scales -----------------------------------------------------------------------------------------------

function number(v) {
  if (!known(v)) return "–";
  const size = Math.abs(v);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return v.toExponential(1).replace("e+", "e").replace(".0e", "e");
  return v.toLocaleString("en", { maximumFractionDigits: size >= 1000 ? 0 : size >= 10 ? 2 : size >= 1 ? 3 : 5 });
}

function niceTicks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((k) => k * power >= rough);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) out.push(i * step || 0); // never -0
  return out;
}

function logTicks(low, high) {
  const out = [], decades = Math.log10(high / low), stride = Math.max(1, Math.ceil(decades / 7));
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    for (const k of decades < 1.2 ? [1, 1.5, 2, 3, 4, 5, 7] : decades < 2.5 ? [1, 3] : [1])
      if (e % stride === 0 || decades < 2.5) out.push(k * 10 ** e);
  return out.filter((v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9));
}

function scale(values, log, from, to, count, fixed, zero) {
  let low = Math.min(...values), high = Math.max(...values);
  if (log) {
    const pad = Math.max(1.05, (high / low) ** 0.06);
    [low, high] = [low / pad, high * pad];
  } else {
    if (zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
    const pad = (high - low || Math.abs(high) || 1) * 0.06;
    low = zero && low === 0 ? 0 : low - pad;
    high = zero && high === 0 ? 0 : high + pad;
  }
  const f = log ? Math.log : (v) => v;
  const at = (v) => from + ((f(v) - f(low)) / (f(high) - f(low))) * (to - from);
  return { at, ticks: fixed.length ? fixed : log ? logTicks(low, high) : niceTicks(low, high, count) };
}

// -- drawing ----------------------------------------------------------------------------------------------------------

function points(series) {
  return series.x.map((x, i) => ({ x, y: series.y[i], low: series.low[i] ?? null, high: series.high[i] ?? null, series }));
}

// The SVG of a view as text, and where its points are.
function draw(view, state, width, title, legend) {
  const log = state.log, bars = view.mark === "bar", categories = view.x.of;
  const shown = view.series.filter((s) => !state.hidden.has(s.name));
  const visible = (v) => known(v) && (!log || v > 0);
  const all = shown.flatMap(points).filter((p) => visible(p.y));
  const spread = all.flatMap((p) => [p.y, p.low, p.high]).filter(visible);
  const height = Math.round(Math.max(240, Math.min(400, width * 0.5)));
  const perCategory = categories.length ? (width - 80) / categories.length : 0;
  const slanted = categories.some((c) => c.length * 7 > perCategory);
  const slant = slanted ? 4 + 3.7 * Math.max(...categories.map((c) => c.length)) : 0;
  const keys = legend ? shown : [];
  const y = scale(spread.length ? spread : [1, 10], log, 1, 0, 6, [], bars);
  const margin = Math.max(...y.ticks.map((tick) => number(tick).length)) * 7 + (view.y.label ? 34 : 14);
  const box = { left: margin, right: width - 14, top: legend ? 34 : 10, bottom: height - (view.x.label ? 44 : 26) - slant };
  const up = (v) => box.top + y.at(v) * (box.bottom - box.top);
  const numeric = all.map((p) => p.x);
  const x = categories.length
    ? { at: (c) => box.left + (categories.indexOf(c) + 0.5) * ((box.right - box.left) / categories.length), ticks: categories }
    : scale(numeric.length ? numeric : [1, 10], view.x.log, box.left, box.right, Math.max(3, width / 110), view.x.ticks, false);
  const out = [], text = (at, high, content, more = "") => `<text x="${at.toFixed(1)}" y="${high.toFixed(1)}" font-size="12" fill="var(--soft)" ${more}>${escaped(content)}</text>`;
  if (legend) out.push(text(box.left, 18, title, 'font-weight="600"'));
  for (const tick of y.ticks) {
    out.push(`<line x1="${box.left}" x2="${box.right}" y1="${up(tick)}" y2="${up(tick)}" stroke="var(--grid)"/>`);
    out.push(text(box.left - 8, up(tick) + 4, number(tick), 'text-anchor="end"'));
  }
  let last = -Infinity;
  for (const tick of x.ticks) {
    const at = x.at(tick), label = categories.length ? tick : number(tick);
    if (slanted) { out.push(text(at + 4, box.bottom + 16, label, `text-anchor="end" transform="rotate(-32 ${at} ${box.bottom + 12})"`)); continue; }
    if (!categories.length && at - last < label.length * 7 + 6) continue;
    last = at;
    out.push(text(at, box.bottom + 18, label, 'text-anchor="middle"'));
  }
  out.push(`<line x1="${box.left}" x2="${box.right}" y1="${box.bottom}" y2="${box.bottom}" stroke="var(--faint)"/>`);
  if (view.x.label) out.push(text((box.left + box.right) / 2, height - 8, view.x.label, 'text-anchor="middle"'));
  if (view.y.label) out.push(`<text transform="translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)" font-size="12" fill="var(--soft)" text-anchor="middle">${escaped(view.y.label)}</text>`);
  if (bars && /×/.test(view.y.label)) out.push(`<line x1="${box.left}" x2="${box.right}" y1="${up(1)}" y2="${up(1)}" stroke="var(--faint)" stroke-dasharray="4 4"/>`);

  // Series of one category stand side by side, unless each has a category of its own.
  const crowded = categories.some((c) => all.filter((p) => p.x === c).length > 1);
  const room = crowded ? Math.min(bars ? 60 : 26, (0.8 * (box.right - box.left)) / categories.length / shown.length) : 0;
  const thick = bars ? Math.min(48, crowded ? room * 0.86 : 0.6 * (box.right - box.left) / (categories.length || 1)) : 0;
  const marks = [];
  shown.forEach((series, nth) => {
    const color = `var(--c${series.color})`;
    const placed = points(series).filter((p) => visible(p.y)).map((p) => ({ ...p, px: x.at(p.x) + (nth - (shown.length - 1) / 2) * room, py: up(p.y) }));
    const end = (v, other) => up(visible(v) ? v : other);
    const banded = view.mark === "line" && series.low.length > 0;
    if (banded) {
      const lows = placed.map((p) => `${p.px.toFixed(1)},${end(p.low, p.y).toFixed(1)}`).reverse();
      out.push(`<path d="M${placed.map((p) => `${p.px.toFixed(1)},${end(p.high, p.y).toFixed(1)}`).join("L")}L${lows.join("L")}Z" fill="${color}" opacity="0.15"/>`);
    }
    if (view.mark === "line") out.push(`<path class="mark" d="M${placed.map((p) => `${p.px.toFixed(1)},${p.py.toFixed(1)}`).join("L")}" fill="none" stroke="${color}" stroke-width="2" stroke-linejoin="round"/>`);
    for (const p of placed) {
      if (bars) {
        const top = Math.min(p.py, log ? p.py : up(0)), tall = Math.abs((log ? box.bottom : up(0)) - p.py);
        out.push(`<rect class="mark" x="${(p.px - thick / 2).toFixed(1)}" y="${top.toFixed(1)}" width="${thick.toFixed(1)}" height="${tall.toFixed(1)}" rx="2" fill="${color}" ${series.paper ? `fill-opacity="0.12" stroke="${color}" stroke-dasharray="3 2"` : 'fill-opacity="0.88"'}/>`);
      }
      if (!banded && known(p.low) && known(p.high)) {
        const [top, down] = [end(p.high, p.y), visible(p.low) ? up(p.low) : box.bottom];
        out.push(`<path d="M${p.px},${top}V${down}M${p.px - 4},${top}h8M${p.px - 4},${down}h8" stroke="${bars ? "var(--ink)" : color}" stroke-width="1.3" fill="none" opacity="0.8"/>`);
      }
      if (view.mark === "dot" || (view.mark === "line" && placed.length <= 24))
        out.push(`<circle class="mark" cx="${p.px.toFixed(1)}" cy="${p.py.toFixed(1)}" r="${view.mark === "dot" ? 5.5 : 3}" fill="${series.paper ? "var(--card)" : color}" stroke="${color}" stroke-width="2"/>`);
    }
    marks.push(...placed);
  });
  let below = 0;
  if (keys.length > 1) {
    let at = box.left, row = 0;
    for (const series of keys) {
      const wide = 24 + series.name.length * 7;
      if (at > box.left && at + wide > box.right) [at, row] = [box.left, row + 1];
      const line = height + 8 + row * 20;
      out.push(`<circle cx="${at + 5}" cy="${line}" r="5" fill="${series.paper ? "var(--card)" : `var(--c${series.color})`}" stroke="var(--c${series.color})" stroke-width="2"/>`, text(at + 16, line + 4, series.name));
      at += wide + 8;
    }
    below = 24 + row * 20;
  }
  const ground = legend ? '<rect width="100%" height="100%" fill="var(--card)"/>' : "";
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height + below}" width="${width}" height="${height + below}" role="img" aria-label="${escaped(title)}" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif">${ground}${out.join("")}<g class="hover"></g></svg>`;
  return { svg, marks, box };
}

// -- files ------------------------------------------------------------------------------------------------------------

function save(blob, name) {
  const link = node("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function standalone(view, state, title) {
  const light = document.body.appendChild(node("div", { class: "light", hidden: "" }));
  const svg = draw(view, state, 760, title, true).svg.replace(/var\(--\w+\)/g, (name) => {
    light.style.color = name;
    return getComputedStyle(light).color;
  });
  light.remove();
  return svg;
}

function savePng(svg, name) {
  const image = new Image();
  image.onload = () => {
    const canvas = node("canvas", { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, name), "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
}

const csvLine = (cells) => cells.map((c) => (/[",\n]/.test(String(c ?? "")) ? `"${String(c).replace(/"/g, '""')}"` : c ?? "")).join(",");

function chartCsv(chart) {
  const lines = [["view", "x axis", "y axis", "series", "x", "y", "low", "high"]];
  for (const view of chart.views)
    for (const p of view.series.flatMap(points)) lines.push([view.name, view.x.label, view.y.label, p.series.name, p.x, p.y, p.low, p.high]);
  return lines.map(csvLine).join("\n") + "\n";
}

// -- the page ---------------------------------------------------------------------------------------------------------

function build(figure) {
  const chart = charts[Number(figure.dataset.chart)], plot = node("div", { class: "plot" });
  const tools = node("div", { class: "tools" }), legend = node("div", { class: "legend" });
  const tip = node("div", { class: "tip", hidden: "" });
  const state = { view: 0, log: chart.views[0].y.log, hidden: new Set() };
  let drawn = { marks: [] };
  const view = () => chart.views[state.view];
  const press = (label, on, act) => node("button", { type: "button", "aria-pressed": String(on), onclick: act }, label);

  function refresh() {
    const names = chart.views.map((v, i) => press(v.name, i === state.view, () => { state.view = i; state.log = v.y.log; refresh(); }));
    const values = view().series.flatMap((s) => s.y).filter(known), least = Math.min(...values);
    const logs = least > 0 && (view().y.log || Math.max(...values) > 5 * least);
    const base = slug(chart.title) + (chart.views.length > 1 ? "-" + slug(view().name) : "");
    const file = (kind, act) => node("button", { type: "button", "data-save": kind, title: `Download as ${kind.toUpperCase()}`, onclick: act }, `↓ ${kind.toUpperCase()}`);
    tools.replaceChildren(
      ...(names.length > 1 ? names : []),
      ...(logs ? [press("log", state.log, () => { state.log = !state.log; refresh(); })] : []),
      node("span", { class: "gap" }),
      file("svg", () => save(new Blob([standalone(view(), state, chart.title)], { type: "image/svg+xml" }), base + ".svg")),
      file("png", () => savePng(standalone(view(), state, chart.title), base + ".png")),
      file("csv", () => save(new Blob([chartCsv(chart)], { type: "text/csv" }), slug(chart.title) + ".csv")),
    );
    const own = view().x.of.length && view().series.every((s) => s.x.length === 1 && s.x[0] === s.name);
    legend.replaceChildren(...(view().series.length > 1 && !own ? view().series : []).map((s) => {
      const dot = node("i", { style: `border-color: var(--c${s.color});` + (s.paper ? "" : `background: var(--c${s.color})`) });
      const toggle = () => { if (!state.hidden.delete(s.name)) state.hidden.add(s.name); refresh(); };
      return node("button", { type: "button", "aria-pressed": String(!state.hidden.has(s.name)), onclick: toggle }, dot, s.name);
    }));
    resize();
  }

  function resize() {
    drawn = draw(view(), state, Math.max(260, Math.round(plot.clientWidth)), chart.title, false);
    plot.innerHTML = drawn.svg;
    tip.hidden = true;
  }

  function hover(event) {
    const frame = plot.getBoundingClientRect(), hover = plot.querySelector(".hover");
    const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
    const far = (p) => (p.px - px) ** 2 + 0.2 * (p.py - py) ** 2;
    const nearest = drawn.marks.reduce((best, p) => (!best || far(p) < far(best) ? p : best), null);
    if (!nearest) return;
    const fellows = drawn.marks.filter((p) => p.x === nearest.x);
    hover.innerHTML = `<line x1="${nearest.px}" x2="${nearest.px}" y1="${drawn.box.top}" y2="${drawn.box.bottom}" stroke="var(--faint)" stroke-dasharray="3 3"/>` +
      fellows.map((p) => `<circle cx="${p.px}" cy="${p.py}" r="6" fill="none" stroke="var(--ink)" stroke-width="1.5"/>`).join("");
    const where = typeof nearest.x === "string" ? nearest.x : `${view().x.label}: ${number(nearest.x)}`;
    const range = (p) => (known(p.low) && p.low !== p.high ? ` (${number(p.low)} to ${number(p.high)})` : "");
    const lines = fellows.map((p) => node("div", {}, node("span", { style: `color: var(--c${p.series.color})` }, "● "), `${p.series.name}: ${number(p.y)}${range(p)}`));
    tip.replaceChildren(node("strong", {}, where), ...lines);
    tip.hidden = false;
    const left = plot.offsetLeft + nearest.px, edge = figure.clientWidth - tip.offsetWidth - 8;
    tip.style.left = Math.max(8, left + 14 > edge ? Math.min(edge, left - tip.offsetWidth - 14) : left + 14) + "px";
    tip.style.top = plot.offsetTop + Math.max(0, Math.min(nearest.py - 20, plot.clientHeight - tip.offsetHeight)) + "px";
  }

  plot.addEventListener("pointermove", hover);
  plot.addEventListener("pointerdown", hover);
  plot.addEventListener("pointerleave", () => { tip.hidden = true; plot.querySelector(".hover").innerHTML = ""; });
  figure.append(tools, plot, legend, tip);
  refresh();
  let width = plot.clientWidth;
  new ResizeObserver(() => { if (plot.clientWidth !== width) { width = plot.clientWidth; resize(); } }).observe(plot);
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(node("textarea"));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy"; }, 1500);
}

for (const figure of document.querySelectorAll("figure[data-chart]")) build(figure);
for (const details of document.querySelectorAll(".sources details")) {
  const button = node("button", { type: "button", onclick: () => copy(details.querySelector("pre").textContent, button) }, "copy");
  details.querySelector("summary").after(button);
}
for (const card of document.querySelectorAll(".card[data-name]")) {
  const rows = () => [...card.querySelectorAll("tr")].map((row) => csvLine([...row.cells].map((cell) => cell.textContent)));
  const file = () => save(new Blob([rows().join("\n") + "\n"], { type: "text/csv" }), slug(card.dataset.name) + ".csv");
  card.querySelector(".sources").append(node("button", { type: "button", "data-save": "csv", onclick: file }, "↓ CSV"));
}
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, was = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = was === "dark" ? "light" : "dark";
});
document.documentElement.dataset.ready = "yes";
