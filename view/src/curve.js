// Curves, drawn by uPlot.
import { html } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";

// Told apart by people who don't see all colours (Okabe and Ito), and by their dashes.
export const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888"];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4], [4, 2], [1, 2]];

/** The mean of each value and those before it, the nearer the heavier. */
export function smooth(values, width) {
  if (!width) return values;
  const keep = width / (width + 1);
  let sum = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * keep + value * (1 - keep);
    weight = weight * keep + (1 - keep);
    return sum / weight;
  });
}

/** Lines `{ label, points: [[x, y], ...] }` over one axis. A click on a point answers with its x. */
export function Curve({ lines, unit = "iteration", title, logarithm, onPoint }) {
  const at = useRef(null);
  useEffect(() => {
    const ink = getComputedStyle(document.body).getPropertyValue("--ink").trim();
    const grid = { stroke: getComputedStyle(document.body).getPropertyValue("--line").trim(), width: 1 };
    const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui" };
    const xs = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
    const ys = lines.map((line) => {
      const known = new Map(line.points.map((point) => [point[0], point[1]]));
      return xs.map((x) => (known.has(x) && !(logarithm && known.get(x) <= 0) ? known.get(x) : null));
    });
    const plot = new UPlot({
      width: Math.max(260, at.current.clientWidth), height: 220, title,
      scales: { x: { time: false }, y: { distr: logarithm ? 3 : 1 } },
      axes: [{ ...axis, label: unit, labelSize: 18, size: 34 }, { ...axis, size: 62 }],
      series: [{ label: unit }, ...lines.map((line, i) => ({
        label: line.label, stroke: COLOURS[i % COLOURS.length], dash: DASHES[i % DASHES.length], width: 1.6, spanGaps: true, points: { show: xs.length < 60, size: 4 },
      }))],
    }, [xs, ...ys], at.current);
    const clicked = () => onPoint && plot.cursor.idx !== null && plot.cursor.idx !== undefined && onPoint(xs[plot.cursor.idx]);
    plot.over.addEventListener("click", clicked);
    const fitted = new ResizeObserver(() => plot.setSize({ width: Math.max(260, at.current.clientWidth), height: 220 }));
    fitted.observe(at.current);
    return () => { fitted.disconnect(); plot.destroy(); };
  }, [JSON.stringify(lines), unit, title, logarithm]);
  return html`<div class="curve" ref=${at} role="img" aria-label=${`${title || ""}: ${lines.map((line) => line.label).join(", ")}`}></div>`;
}
