// Small helpers, and a chart: lines with bands over the iterations.
const SVG = "http://www.w3.org/2000/svg";
function make(name, attributes, ...children) {
  const svg = ["svg", "path", "line", "text", "g", "circle", "rect"].includes(name);
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "5 2", "1 2", "12 4"];
const colour = n => `var(--c${n % 7})`;
function mark(n, x, y, size, attributes) {
  const s = size, shapes = [
    `M${x - s},${y}a${s},${s} 0 1 0 ${2 * s},0a${s},${s} 0 1 0 ${-2 * s},0`, `M${x - s},${y - s}h${2 * s}v${2 * s}h${-2 * s}z`,
    `M${x},${y - 1.2 * s}l${1.2 * s},${2.1 * s}h${-2.4 * s}z`, `M${x},${y - 1.3 * s}l${1.3 * s},${1.3 * s}l${-1.3 * s},${1.3 * s}l${-1.3 * s},${-1.3 * s}z`,
  ];
  return make("path", { d: shapes[n % 4], fill: colour(n), ...attributes });
}
function key(n, label) {
  const svg = make("svg", { class: "key", width: 26, height: 12, "aria-hidden": "true" },
    make("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour(n), "stroke-width": 2, "stroke-dasharray": DASHES[n % 7] }), mark(n, 13, 6, 3));
  return make("span", { class: "named" }, svg, label);
}
function told(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "%") return `${(100 * value).toFixed(1)}%`;
  const size = Math.abs(value);
  // Rounding leaves such numbers where there is nothing.
  if (size < 1e-12) return "0";
  if (size < 0.001 || size >= 1e6) return value.toExponential(2).replace("e+", "e").replaceAll("-", "−");
  return String(+value.toFixed(size < 1 ? 4 : size < 100 ? 3 : 1)).replace("-", "−");
}
function seconds(s) {
  if (s < 100) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  const whole = Math.round(s);
  return whole < 7200 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${(s / 3600).toFixed(1)} h`;
}
function steps(low, high, wanted, whole) {
  const rough = (high - low) / wanted || 1, power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough - 1e-12);
  if (whole) step = Math.max(1, Math.round(step));
  const ticks = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-9; t += step) ticks.push(Math.abs(t) < step * 1e-9 ? 0 : +t.toPrecision(12));
  return { step, ticks };
}
function span(values, unit) {
  let low = Math.min(...values), high = Math.max(...values);
  if (Math.max(Math.abs(low), Math.abs(high)) < 1e-12) low = high = 0;
  if (!isFinite(low)) return [0, 1];
  if (unit === "%") { low = 0; high = Math.min(1, high); if (high > 0.5) return [0, 1]; }
  if (low > 0 && low < 0.5 * high) low = 0;
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; if (unit === "%") low = 0; }
  const { step } = steps(low, high, 4);
  return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
}
const tick = (value, unit) => unit === "%" ? `${+(100 * value).toFixed(2)}%` : told(value, unit);

// The frame of a chart: scales, grid and axes.
function frame(width, height, x, y, unit, label, xticks) {
  const marks = steps(y[0], y[1], 4).ticks.map(t => [t, tick(t, unit)]);
  // Room for the longest number: about seven pixels a character.
  const left = Math.max(54, 16 + 7 * Math.max(...marks.map(([, text]) => text.length))), right = 14, top = 10, bottom = 38;
  const at = { x: v => left + (v - x[0]) / (x[1] - x[0]) * (width - left - right), y: v => top + (y[1] - Math.max(y[0], Math.min(y[1], v))) / (y[1] - y[0]) * (height - top - bottom), left, right, top, bottom: height - bottom };
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0 });
  for (const [t, text] of marks) {
    svg.append(make("line", { class: "grid-line", x1: left, x2: width - right, y1: at.y(t), y2: at.y(t) }));
    svg.append(make("text", { x: left - 8, y: at.y(t) + 4, "text-anchor": "end" }, text));
  }
  svg.append(make("line", { class: "axis", x1: left, x2: width - right, y1: at.bottom, y2: at.bottom }));
  for (const [value, text] of xticks) svg.append(make("text", { x: at.x(value), y: at.bottom + 16, "text-anchor": "middle" }, text));
  svg.append(make("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, label));
  return { svg, at };
}
function bands(points, at) {
  // An area where neighbours have an interval, a whisker where a point has one alone.
  const found = [];
  let open = [];
  const close = () => {
    if (open.length === 1) found.push({ whisker: open[0] });
    else if (open.length) found.push({ d: `M${open.map(p => `${at.x(p[0])},${at.y(p[3])}`).join("L")}L${[...open].reverse().map(p => `${at.x(p[0])},${at.y(p[2])}`).join("L")}z` });
    open = [];
  };
  for (const p of points) if (p[1] !== null && p[2] !== null && p[3] !== null) open.push(p); else close();
  close();
  return found;
}
function path(points, at) {
  let d = "", gap = true;
  for (const [x, y] of points) { if (y === null) { gap = true; continue; } d += `${gap ? "M" : "L"}${at.x(x).toFixed(2)},${at.y(y).toFixed(2)}`; gap = false; }
  return d;
}
// A line without the dice of single iterations: the mean of those around each, over a twentieth of them all. Few points are left as they are.
const MANY = 40;
function smooth(points) {
  const known = points.filter(p => p[1] !== null), half = Math.round(known.length / 40);
  if (known.length < MANY) return null;
  return known.map((p, i) => {
    // As far on one side as on the other, so that the ends don't lag.
    const reach = Math.min(half, i, known.length - 1 - i), near = known.slice(i - reach, i + reach + 1);
    return [p[0], near.reduce((sum, q) => sum + q[1], 0) / near.length];
  });
}
function chart(data, hidden, view) {
  const tip = make("div", { class: "tip", role: "status", hidden: "" }), holder = make("div", { class: "plot" });
  const keys = make("div", { class: "keys" });
  const figure = make("figure", { class: "sheet" }, make("figcaption", {}, make("h3", {}, data.title), make("span", {}, data.unit === "%" ? "share, %" : data.unit)), holder, keys, tip, make("p", { class: "about" }, data.about), figuresOf(data));
  let chosen = null;
  // Lines of one family (attempts) take colours of their own.
  const parts = new Set(data.lines.map(l => l.family)).size < data.lines.length;
  data.lines.forEach((line, i) => line.look = parts ? i : line.family);
  function draw() {
    const width = Math.max(260, holder.clientWidth || 380), height = 230;
    const lines = data.lines.filter(l => !hidden.has(l.family)), all = lines.flatMap(l => l.points.concat(...l.runs.map(r => r.points)));
    const xs = [...new Set(lines.flatMap(l => l.points.map(p => p[0])))].sort((a, b) => a - b);
    // The curves decide, not their bands, which are cut off where the axis ends.
    const values = all.map(p => p[1]).filter(v => v !== null && v !== undefined);
    const x = xs.length > 1 ? [xs[0], xs[xs.length - 1]] : [(xs[0] ?? 0) - 0.5, (xs[0] ?? 0) + 0.5];
    const y = span(values, data.unit);
    const { svg, at } = frame(width, height, x, y, data.unit, "iteration", steps(Math.ceil(x[0]), x[1], Math.min(6, width / 70), true).ticks.map(t => [t, t]));
    svg.setAttribute("aria-label", `${data.title}. ${lines.map(l => `${l.label}: ${told(l.points[0][1], data.unit)} at iteration ${l.points[0][0]}, ${told(l.points.at(-1)[1], data.unit)} at iteration ${l.points.at(-1)[0]}`).join("; ")}. Arrow keys go through the iterations.`);
    for (const line of lines) for (const band of bands(line.points, at)) {
      if (band.d) svg.append(make("path", { d: band.d, fill: colour(line.look), "fill-opacity": 0.16 }));
      else svg.append(make("line", { x1: at.x(band.whisker[0]), x2: at.x(band.whisker[0]), y1: at.y(band.whisker[2]), y2: at.y(band.whisker[3]), stroke: colour(line.look), "stroke-opacity": 0.6, "stroke-width": 2 }));
    }
    for (const line of lines) {
      for (const run of line.runs) svg.append(make("path", { d: path(run.points, at), fill: "none", stroke: colour(line.look), "stroke-opacity": 0.4, "stroke-width": 1 }));
      const even = view.smooth ? smooth(line.points) : null;
      if (even) svg.append(make("path", { d: path(line.points, at), fill: "none", stroke: colour(line.look), "stroke-opacity": 0.3, "stroke-width": 1 }));
      svg.append(make("path", { d: path(even || line.points, at), fill: "none", stroke: colour(line.look), "stroke-width": 2, "stroke-dasharray": DASHES[line.look % 7], "stroke-linejoin": "round" }));
      if (line.points.length <= 25) for (const p of line.points) if (p[1] !== null) svg.append(mark(line.look, at.x(p[0]), at.y(p[1]), 3));
    }
    const cursor = make("g", {});
    svg.append(cursor);
    function show(i) {
      chosen = i;
      cursor.replaceChildren();
      tip.hidden = i === null;
      if (i === null) return;
      const here = xs[i], rows = [];
      cursor.append(make("line", { class: "cursor", x1: at.x(here), x2: at.x(here), y1: at.top, y2: at.bottom }));
      for (const line of lines) {
        const p = line.points.find(p => p[0] === here);
        if (!p || p[1] === null) continue;
        cursor.append(mark(line.look, at.x(here), at.y(p[1]), 4.5, { stroke: "var(--sheet)" }));
        const sure = p[2] !== null ? make("i", {}, ` ${told(p[2], data.unit)} to ${told(p[3], data.unit)}`) : null;
        rows.push(make("div", {}, key(line.look, lines.length > 1 ? line.label : ""), make("b", {}, told(p[1], data.unit), sure)));
      }
      tip.replaceChildren(`iteration ${here}`, ...rows);
      const scale = holder.clientWidth / width, middle = at.x(here) * scale;
      // Beside the cursor, on the side with more room, and never out of the window.
      tip.style.left = "0";
      const wide = tip.offsetWidth, edge = figure.getBoundingClientRect().left, from = holder.offsetLeft + middle;
      // Where it would cover the lines, it stands below them.
      tip.style.top = `${holder.offsetTop + (wide > 0.6 * figure.clientWidth ? holder.offsetHeight : 4)}px`;
      const left = middle > holder.clientWidth / 2 ? from - wide - 12 : from + 12;
      tip.style.left = `${Math.max(8 - edge, Math.min(left, document.documentElement.clientWidth - edge - wide - 8))}px`;
    }
    svg.addEventListener("pointermove", event => {
      const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) / box.width * width;
      let best = null;
      xs.forEach((v, i) => { if (best === null || Math.abs(at.x(v) - px) < Math.abs(at.x(xs[best]) - px)) best = i; });
      show(best);
    });
    svg.addEventListener("pointerleave", () => show(null));
    svg.addEventListener("blur", () => show(null));
    svg.addEventListener("keydown", event => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move && xs.length) { event.preventDefault(); show(chosen === null ? (move > 0 ? 0 : xs.length - 1) : Math.max(0, Math.min(xs.length - 1, chosen + move))); }
      if (event.key === "Escape") show(null);
    });
    holder.replaceChildren(svg);
    keys.replaceChildren(...(lines.length > 1 ? lines.map(l => key(l.look, l.label)) : []));
    const band = [...new Set(lines.map(l => l.band).filter(Boolean))].join("; ");
    if (band) keys.append(make("span", { class: "about" }, `Band: ${band}.`));
    if (view.smooth && lines.some(l => smooth(l.points))) keys.append(make("span", { class: "about" }, "Bold: smoothed; thin: as measured."));
    if (lines.some(l => l.of > l.points.length)) keys.append(make("span", { class: "about" }, `Thinned to ${Math.max(...lines.map(l => l.points.length))} of ${Math.max(...lines.map(l => l.of))} iterations.`));
  }
  figure.draw = draw;
  let before = 0;
  new ResizeObserver(() => { if (holder.clientWidth !== before) { before = holder.clientWidth; draw(); } }).observe(holder);
  return figure;
}
function figuresOf(data) {
  const details = make("details", { class: "figures" }, make("summary", {}, "Figures"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    const rows = data.lines.flatMap(line => line.points.map(p => make("tr", {}, make("td", { class: "number" }, p[0]), make("td", {}, line.label), make("td", { class: "number" }, told(p[1], data.unit)), make("td", {}, p[2] === null ? "" : `${told(p[2], data.unit)} to ${told(p[3], data.unit)}`), make("td", { class: "number" }, p[4]))));
    const head = make("tr", {}, ...["iteration", "run", "value", "95% interval", "runs"].map(t => make("th", {}, t)));
    details.append(make("div", {}, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))));
  });
  return details;
}
