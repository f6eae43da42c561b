// Curves of one run or of several, laid over one another.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { address, ask, change, useAnswer } from "../api.js";
import { Curve, smooth } from "../curve.js";
import { Choice, Problem, Sql } from "../parts.js";

export function Curves({ number, run, given, tick }) {
  const all = Object.entries(run.figures).flatMap(([node, names]) => Object.keys(names).map((name) => `${node} ${name}`));
  const figures = given.f ? given.f.split(",") : all.filter((figure) => /(success|return|loss|entropy)$/.test(figure));
  const numbers = given.runs ? given.runs.split(",") : [number];
  const listed = useAnswer("runs").data?.runs || [];
  const toggle = (figure) => change({ f: (figures.includes(figure) ? figures.filter((other) => other !== figure) : [...figures, figure]).join(",") });
  const [part, setPart] = useState("");
  const label = (one) => { const known = listed.find((other) => String(other.number) === one); return known ? `${known.folder.split("/").at(-1)}` : `run ${one}`; };
  return html`<section class="side"><aside class="box"><label class="choice">Find a figure <input type="search" value=${part} onInput=${(event) => setPart(event.target.value)} /></label>
      <ul class="list">${all.filter((figure) => figure.includes(part)).map((figure) => html`<li key=${figure}><label><input type="checkbox" checked=${figures.includes(figure)} onChange=${() => toggle(figure)} /> ${figure.split(" ")[1]} <span class="quiet">${figure.split(" ")[0]}</span></label></li>`)}</ul>
      <h3>Runs</h3><ul class="list">${listed.filter((other) => !other.error).map((other) => html`<li key=${other.number}><label><input type="checkbox" checked=${numbers.includes(String(other.number))}
        onChange=${() => { const own = String(other.number); const next = numbers.includes(own) ? numbers.filter((one) => one !== own) : [...numbers, own]; change({ runs: next.length ? next.join(",") : number }); }} /> ${other.folder.split("/").at(-1)}</label></li>`)}</ul></aside>
    <div><p><${Choice} label="Axis" value=${given.axis || "iteration"} options=${[["iteration", "iteration"], ["minutes", "minutes of the run"]]} onChange=${(axis) => change({ axis })} />
      <${Choice} label="Smoothing" value=${given.smooth || "0"} options=${[["0", "none"], ["3", "3"], ["10", "10"], ["30", "30"]]} onChange=${(value) => change({ smooth: value })} />
      <label class="choice"><input type="checkbox" checked=${given.log === "1"} onChange=${(event) => change({ log: event.target.checked ? "1" : "" })} /> logarithm</label>
      <label class="choice"><input type="checkbox" checked=${given.band === "1"} onChange=${(event) => change({ band: event.target.checked ? "1" : "" })} /> mean of the runs</label></p>
    <div class="curves">${figures.map((figure) => html`<${Overlay} key=${figure} figure=${figure} numbers=${numbers} label=${label} given=${given} tick=${tick} number=${number} />`)}</div></div></section>`;
}

/** One figure of several runs. */
function Overlay({ figure, numbers, label, given, tick, number }) {
  const [node, name] = figure.split(" ");
  const [state, set] = useState({});
  useEffect(() => {
    let over = false;
    Promise.all(numbers.map((one) => ask(`runs/${one}/curve`, { node, name }).then((data) => [one, data])))
      .then((all) => over || set({ all }), (error) => over || set({ error: error.message }));
    return () => { over = true; };
  }, [figure, numbers.join(","), tick]);
  if (state.error) return html`<${Problem} error=${state.error} />`;
  if (!state.all) return html`<div class="curve"></div>`;
  const width = Number(given.smooth || 0);
  const x = given.axis === "minutes" ? (point) => point[2] / 60 : (point) => point[0];
  let lines = state.all.filter(([, data]) => data.points.length).map(([one, data]) => {
    const values = smooth(data.points.map((point) => point[1]), width);
    return { label: label(one), points: data.points.map((point, i) => [x(point), values[i]]) };
  });
  if (given.band === "1" && lines.length > 1) lines = [mean(lines), ...band(lines)];
  return html`<figure><${Curve} title=${`${name} (${node})`} unit=${given.axis || "iteration"} lines=${lines} logarithm=${given.log === "1"}
      onPoint=${(at) => given.axis !== "minutes" && (location.hash = address(["r", numbers[0], "i", String(at)]))} />
    <${Sql} sql=${state.all[0]?.[1].sql} run=${number} /></figure>`;
}

const valuesAt = (lines, x) => lines.map((line) => line.points.find((point) => point[0] === x)?.[1]).filter((value) => value !== undefined);
const shared = (lines) => lines[0].points.map((point) => point[0]).filter((x) => valuesAt(lines, x).length === lines.length);
const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The mean of runs where all of them have a value. */
const mean = (lines) => ({ label: `mean of ${lines.length}`, points: shared(lines).map((x) => [x, average(valuesAt(lines, x))]) });
/** The least and the largest value of the runs. */
const band = (lines) => [["least", Math.min], ["largest", Math.max]].map(([label, of]) => ({ label, points: shared(lines).map((x) => [x, of(...valuesAt(lines, x))]) }));
