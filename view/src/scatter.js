// Points with their intervals, drawn by uPlot.
import { html } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";
import UPlot from "uplot";
import { axisStyle, colours, fit } from "./curve.js";
import { useTheme } from "./theme.js";

/** The least and the greatest, with room beside them. */
const around = (low, high) => { const room = (high - low || 1) * 0.05; return [low - room, high + room]; };

/** Points `{ x, y, low, high, name }`; the one called `chosen` is marked. A click answers with the name of the nearest. */
export function Scatter({ points, chosen, title, labels: [across, up], onPoint }) {
  const at = useRef(null);
  const theme = useTheme();
  const sorted = [...points].sort((a, b) => a.x - b.x);
  useEffect(() => {
    const axis = axisStyle();
    const [first, second] = colours();
    /** A line for each interval, and the two zeros: in which quarter a point lies says whether the signs agree. */
    const lines = (plot) => {
      const { ctx, bbox } = plot;
      const stroke = (colour, parts) => {
        ctx.strokeStyle = colour;
        ctx.beginPath();
        for (const [x, y, toX, toY] of parts) { ctx.moveTo(x, y); ctx.lineTo(toX, toY); }
        ctx.stroke();
      };
      const [x, y] = [(value) => plot.valToPos(value, "x", true), (value) => plot.valToPos(value, "y", true)];
      ctx.save();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      stroke(axis.stroke, [[x(0), bbox.top, x(0), bbox.top + bbox.height], [bbox.left, y(0), bbox.left + bbox.width, y(0)]]);
      stroke(`${first}60`, sorted.map((point) => [x(point.x), y(point.low), x(point.x), y(point.high)]));
      ctx.restore();
    };
    const dots = (colour, size) => ({ paths: () => null, points: { show: true, size, stroke: colour, fill: colour } });
    const plot = new UPlot({
      width: Math.max(260, at.current.clientWidth), height: 320, title, legend: { show: false }, hooks: { drawAxes: [lines] },
      scales: { x: { time: false, range: around(sorted[0].x, sorted.at(-1).x) }, y: { range: around(Math.min(...sorted.map((point) => point.low)), Math.max(...sorted.map((point) => point.high))) } },
      axes: [{ ...axis, label: across, labelSize: 18, size: 34 }, { ...axis, label: up, labelSize: 18, size: 62 }],
      series: [{}, dots(first, 5), dots(second, 11)],
    }, [sorted.map((point) => point.x), sorted.map((point) => point.y), sorted.map((point) => (point.name === chosen ? point.y : null))], at.current);
    const distance = ({ x, y }) => Math.hypot(plot.valToPos(x, "x") - plot.cursor.left, plot.valToPos(y, "y") - plot.cursor.top);
    if (onPoint) plot.over.addEventListener("click", () => onPoint(sorted.reduce((near, point) => (distance(point) < distance(near) ? point : near)).name));
    return fit(plot, at.current);
  }, [JSON.stringify(points), chosen, title, across, up, theme]);
  return html`<div class="curve" ref=${at} role="img" aria-label=${`${title}: ${points.length} points`}></div>`;
}
