// Curves, drawn by uPlot.
import { html } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";
import UPlot from "uplot";
import { useTheme } from "./theme.js";
import "uplot/dist/uPlot.min.css";

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colours of lines: hues of Okabe and Ito, which people who don't see all colours tell from one another; lines have dashes, too. */
export const colours = () => style("--lines").split(" ");

const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4], [4, 2], [1, 2]];

/** The mean of each value and those before it, the nearer the heavier. */
export function smooth(values, width) {
  if (!width) return values;
  const keep = width / (width + 1);
  let sum = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return null;
    sum = sum * keep + value * (1 - keep);
    weight = weight * keep + (1 - keep);
    return sum / weight;
  });
}

/** Series and their values for uPlot: a line's band is two more lines, of which only the space between is drawn. */
function series(lines, logarithm) {
  const xs = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  const drawable = (value) => (value === undefined || value === null || (logarithm && value <= 0) ? null : value);
  const values = (points, at) => { const known = new Map(points.map((point) => [point[0], point[at]])); return xs.map((x) => drawable(known.get(x))); };
  const all = [];
  const palette = colours();
  const data = [xs];
  const bands = [];
  let colour = -1;
  for (const line of lines) {
    if (!line.thin) colour += 1;
    const stroke = palette[Math.max(0, colour) % palette.length];
    all.push({ label: line.label, stroke: line.thin ? `${stroke}80` : stroke, dash: line.thin ? [] : DASHES[Math.max(0, colour) % DASHES.length], width: line.thin ? 0.8 : 1.6, spanGaps: true, points: { show: !line.thin && xs.length < 60, size: 4 } });
    data.push(values(line.points, 1));
    if (line.band) {
      for (const [at, name] of [[1, "95% from"], [2, "95% to"]]) {
        all.push({ label: name, stroke: "transparent", width: 0, points: { show: false }, spanGaps: true });
        data.push(values(line.band, at));
      }
      bands.push({ series: [data.length - 1, data.length - 2], fill: `${stroke}30` });
    }
  }
  return { all, data, bands };
}

/** How an axis looks. */
export function axisStyle() {
  const grid = { stroke: style("--line"), width: 1 };
  return { stroke: style("--ink"), grid, ticks: grid, font: "12px system-ui" };
}

/** Keeps a plot as wide as the element that it is in; answers how that ends. */
export function fit(plot, element) {
  const fitted = new ResizeObserver(() => plot.setSize({ width: Math.max(260, element.clientWidth), height: plot.height }));
  fitted.observe(element);
  return () => { fitted.disconnect(); plot.destroy(); };
}

/** Lines `{ label, points: [[x, y], ...], band: [[x, low, high], ...] }` over one axis. A click on a point answers with its x. */
export function Curve({ lines, unit = "iteration", title, logarithm, onPoint }) {
  const at = useRef(null);
  const drawn = useRef(null);
  const theme = useTheme();
  const { all, data, bands } = series(lines, logarithm);
  // Where a run goes on only the values change: the plot stays, which costs a tenth of making it anew.
  const values = JSON.stringify(data);
  useEffect(() => {
    const axis = axisStyle();
    const plot = new UPlot({
      width: Math.max(260, at.current.clientWidth), height: 220, title, bands,
      scales: { x: { time: false }, y: { distr: logarithm ? 3 : 1 } },
      axes: [{ ...axis, label: unit, labelSize: 18, size: 34 }, { ...axis, size: 62 }],
      series: [{ label: unit }, ...all],
    }, data, at.current);
    drawn.current = { plot, values };
    const clicked = () => onPoint && plot.cursor.idx !== null && plot.cursor.idx !== undefined && onPoint(plot.data[0][plot.cursor.idx]);
    plot.over.addEventListener("click", clicked);
    return fit(plot, at.current);
  }, [JSON.stringify([all, bands]), unit, title, logarithm, theme]);
  useEffect(() => {
    if (drawn.current.values === values) return;
    drawn.current.values = values;
    drawn.current.plot.setData(data);
  }, [values]);
  return html`<div class="curve" ref=${at} role="img" aria-label=${`${title || ""}: ${lines.map((line) => line.label).join(", ")}`}></div>`;
}
