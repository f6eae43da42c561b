// The page: sections in the order in which one asks.
const data = JSON.parse(document.getElementById("data").textContent), page = document.getElementById("page"), hidden = new Set();
const theme = document.getElementById("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
function paint(name) {
  document.documentElement.dataset.theme = name;
  theme.textContent = name === "dark" ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colours`);
  theme.setAttribute("aria-pressed", name === "dark");
}
let picked = null;
paint(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => picked || paint(dark.matches ? "dark" : "light"));
theme.addEventListener("click", () => { picked = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; paint(picked); });

const drawn = [], view = { smooth: true };
function add(list) { return list.map(c => { const figure = chart(c, hidden, view); drawn.push(figure); return figure; }); }
const contents = make("nav", { "aria-label": "Contents" });
page.append(contents);
function section(title, ...content) {
  const parts = content.flat().filter(Boolean), id = title.toLowerCase().replaceAll(" ", "-");
  if (!parts.length) return;
  page.append(make("section", {}, make("h2", { id }, title), ...parts));
  contents.append(make("a", { href: `#${id}` }, title));
}
const of = name => data.charts.filter(c => c.section === name);
const grid = figures => figures.length ? [make("div", { class: "grid" }, ...figures)] : [];

const success = of("panel").find(c => c.unit === "%");
function standing(run) {
  const family = data.families.findIndex(f => f.runs.includes(run)), line = success && success.lines.find(l => l.family === family);
  if (!line) return ["", ""];
  const own = line.runs.find(r => r.run === run), points = own ? own.points : line.runs.length ? [] : line.points;
  if (!points.length) return ["", ""];
  const end = points.at(-1), best = points.reduce((a, b) => b[1] > a[1] ? b : a);
  return [`${told(points[0][1], "%")} → ${told(end[1], "%")}`, `${told(best[1], "%")} (${best[0]})`];
}
function overview() {
  const names = ["", "pipeline", "folder", "seed", "iterations", "status", "time", ...(success ? ["success on the panel", "best (iteration)"] : [])];
  const rows = data.runs.map((r, i) => {
    const family = data.families.findIndex(f => f.runs.includes(i));
    const status = typeof r.status === "string" ? r.status : `failed: ${Object.values(r.status)[0]}`;
    const cells = [key(family, ""), r.name, r.folder + (r.replays ? ` (replays ${r.replays})` : ""), r.seed, r.trained === r.iterations ? r.trained : `${r.trained} of ${r.iterations}`, status, seconds(r.seconds), ...(success ? standing(i) : [])];
    return make("tr", {}, ...cells.map((c, j) => make("td", { class: [3, 4].includes(j) ? "number" : j === 2 || j === 5 ? "wide" : null }, c)));
  });
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...names.map((n, j) => make("th", { class: [3, 4].includes(j) ? "number" : null }, n)))), make("tbody", {}, ...rows));
  const yaml = data.families.map(f => make("details", {}, make("summary", {}, `pipeline.yaml of ${data.runs[f.runs[0]].folder}`), make("pre", { class: "yaml" }, data.runs[f.runs[0]].yaml)));
  const abouts = [...new Set(data.runs.map(r => r.about).filter(Boolean))].map(a => make("p", { class: "about" }, a));
  return [...abouts, make("div", { class: "sheet scroll" }, table), ...yaml];
}
section("Runs", overview());
if (data.families.length > 1) {
  const boxes = data.families.map((f, i) => {
    const box = make("input", { type: "checkbox", checked: "" });
    box.addEventListener("change", () => { if (box.checked) hidden.delete(i); else hidden.add(i); drawn.forEach(d => d.draw()); });
    return make("label", {}, box, key(i, f.label));
  });
  page.append(make("div", { class: "legend", role: "group", "aria-label": "Curves that are shown" }, ...boxes));
}

if (data.charts.some(c => c.lines.some(l => smooth(l.points)))) {
  const box = make("input", { type: "checkbox", checked: "" });
  box.addEventListener("change", () => { view.smooth = box.checked; drawn.forEach(d => d.draw()); });
  page.append(make("div", { class: "legend" }, make("label", {}, box, "Smooth lines")));
}

// pass@k: a group of bars for each k.
function passes(pass) {
  const holder = make("div", { class: "plot" }), most = pass.most, count = pass.families.length;
  const figure = make("figure", { class: "sheet" }, make("figcaption", {}, make("h3", {}, `pass@k (${pass.node})`), make("span", {}, "share, %")), holder);
  figure.draw = () => {
    const shown = pass.families.filter(f => !hidden.has(f.family)), width = Math.max(260, holder.clientWidth || 380);
    const { svg, at } = frame(width, 230, [0.5, most + 0.5], span(shown.flatMap(f => f.k.flat()), "%"), "%", "attempts", Array.from({ length: most }, (_, i) => [i + 1, `pass@${i + 1}`]));
    svg.setAttribute("aria-label", shown.map(f => `${f.label}: ${f.k.map((k, i) => `pass@${i + 1} ${told(k[0], "%")}`).join(", ")}`).join("; "));
    const wide = Math.min(46, (at.x(1.5) - at.x(0.5)) * 0.7 / Math.max(1, shown.length));
    shown.forEach((f, n) => f.k.forEach(([value, low, high], i) => {
      const x = at.x(i + 1) + (n - shown.length / 2) * wide, middle = x + wide / 2;
      const bar = make("rect", { x: x + 1.5, y: at.y(value), width: wide - 3, height: at.bottom - at.y(value), fill: colour(f.family), rx: 2 });
      bar.append(document.createElementNS(SVG, "title"));
      bar.firstChild.textContent = `${f.label}, pass@${i + 1}: ${told(value, "%")} (${told(low, "%")} to ${told(high, "%")})`;
      svg.append(bar, make("line", { x1: middle, x2: middle, y1: at.y(low), y2: at.y(high), stroke: "var(--ink)", "stroke-width": 1.5 }), make("text", { x: middle, y: Math.max(at.top + 8, at.y(high) - 5), "text-anchor": "middle" }, wide < 40 ? (100 * value).toFixed(0) : told(value, "%")));
    }));
    holder.replaceChildren(svg);
  };
  new ResizeObserver(() => figure.draw()).observe(holder);
  drawn.push(figure);
  figure.append(make("div", { class: "keys" }, ...(count > 1 ? pass.families.map(f => key(f.family, f.label)) : [])));
  figure.append(make("p", { class: "about" }, `Share of trials won within the first k attempts, the last time that they were measured. ${[...new Set(pass.families.map(f => `Iteration ${f.iteration}, ${f.trials} trials; ${f.band}`))].join(". ")}.`));
  return figure;
}
function times() {
  return data.time.map((time, i) => {
    const rows = [...time.nodes.map(([node, op, s]) => [node, op && op !== node ? op : "", s, ""]), ["engine, log and all else", "", time.rest, "rest"]];
    const longest = Math.max(time.whole, ...rows.map(r => r[2])) || 1;
    const body = rows.map(([node, op, s, kind]) => make("tr", {}, make("td", {}, node, op ? make("span", { class: "about" }, ` ${op}`) : null), make("td", {}, make("div", { class: "bar" }, make("i", { class: kind || null, style: `width:${100 * s / longest}%` }))), make("td", { class: "number" }, seconds(s)), make("td", { class: "number" }, time.whole ? `${(100 * s / time.whole).toFixed(0)}%` : "")));
    return make("div", { class: "sheet scroll" }, make("h3", {}, `${data.runs[i].folder}: ${seconds(time.whole)}`), make("table", { class: "times" }, make("tbody", {}, ...body)));
  });
}
section("On the panel", grid([...add(of("panel")), ...data.passes.map(passes)]));
section("In training", grid(add([...of("training"), ...of("attempts")])));
section("Learning", grid(add(of("learning"))));
section("Exploration and groups", grid(add(of("exploration"))));
section("Where the time goes", make("p", { class: "about" }, "Seconds that each node measured while it worked, as a share of the run's time. Nodes can work at the same time."), grid(times()));
if (data.browser.trips.length) section("Episodes", browser(data));
const more = of("more");
if (data.zero.length) page.append(make("p", { class: "about" }, `Always 0, and not drawn: ${data.zero.join("; ")}.`));
if (more.length) {
  const details = make("details", {}, make("summary", {}, `${more.length} charts`));
  details.addEventListener("toggle", () => { if (details.open && details.childElementCount === 1) details.append(...grid(add(more))); });
  section("All other figures", details);
}
