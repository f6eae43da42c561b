// One iteration: its episodes, the groups that rows were compared in, and what its updates made of them.
import { html } from "htm/preact";
import { address, change, episode, useAnswer } from "../api.js";
import { Credit } from "./credit.js";
import { Answer, Choice, Problem, Short, Waiting, shown } from "../parts.js";

export function Iteration({ number, run, parts, given, tick }) {
  const iteration = Number(parts[0]);
  const { first, last } = run.iterations;
  const view = given.view || "episodes";
  const go = (to) => { location.hash = address(["r", number, "i", String(Math.min(last, Math.max(first, to)))], given); };
  const played = run.tables.filter((table) => ["task", "sample", "turn", "won"].every((column) => table.columns.some(([name]) => name === column))).map((table) => table.name);
  const Part = { episodes: Episodes, groups: Groups, updates: Updates, credit: Credit }[view] || Episodes;
  return html`<p><button onClick=${() => go(iteration - 1)} disabled=${iteration <= first} aria-label="the iteration before">←</button>
      <label class="choice">Iteration <input type="number" min=${first} max=${last} value=${iteration} onChange=${(event) => go(Number(event.target.value))} /></label>
      <button onClick=${() => go(iteration + 1)} disabled=${iteration >= last} aria-label="the next iteration">→</button> <span class="quiet">${first} to ${last}</span>
      <${Choice} label="Show" value=${view} options=${[["episodes", "episodes"], ["groups", "groups"], ["updates", "updates"], ["credit", "other estimators"]]} onChange=${(value) => change({ view: value })} />
      ${view === "episodes" && html`<${Choice} label="of" value=${given.table || "trajectories"} options=${played.map((name) => [name, name])} onChange=${(table) => change({ table })} />`}</p>
    <${Figures} number=${number} iteration=${iteration} first=${first} tick=${iteration === last ? tick : 0} />
    <${Part} number=${number} iteration=${iteration} given=${given} tick=${iteration === last ? tick : 0} />`;
}

/** Figures that are shown at the head of an iteration. */
const HEAD = ["success", "return", "loss", "entropy", "kl", "grad_norm", "clip_fraction", "invalid", "equal", "entries"];

/** The main figures of the iteration beside those of the one before, and the update that made its weights. */
function Figures({ number, iteration, first, tick }) {
  const { data } = useAnswer(`runs/${number}/figures`, { iteration }, tick);
  const shownFirst = (data || []).filter(({ name }) => HEAD.includes(name)).sort((a, b) => HEAD.indexOf(a.name) - HEAD.indexOf(b.name));
  if (shownFirst.length === 0) return null;
  const change = ({ value, before }) => (typeof before !== "number" || before === value ? "" : `${value > before ? "↑" : "↓"} from ${shown(before)}`);
  return html`<dl class="figures">${shownFirst.map((figure) => html`<div key=${`${figure.node} ${figure.name}`}><dt>${figure.name.replaceAll("_", " ")} <span class="quiet">${figure.node}</span></dt><dd>${shown(figure.value)} <span class="quiet">${change(figure)}</span></dd></div>`)}</dl>
    ${iteration > first && html`<p class="quiet">Its weights were made by the <a href=${address(["r", number, "i", String(iteration - 1)], { view: "updates" })}>updates of iteration ${iteration - 1}</a>, in a pipeline that trains on the iteration before.</p>`}`;
}

function Episodes({ number, iteration, given, tick }) {
  const table = given.table || "trajectories";
  const { data, error } = useAnswer(`runs/${number}/episodes`, { iteration, table }, tick);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const cells = { task: (task, row) => html`<a href=${episode(number, iteration, { task, sample: row.sample }, table)}>${task}</a>` };
  return html`<${Answer} answer=${data} run=${number} cells=${cells} hide=${unknown(data)} />`;
}

/** Columns that say nothing in this run. */
export const unknown = (answer) => answer.columns.filter((_, i) => answer.rows.length > 0 && answer.rows.every((row) => row[i] === null));

function Groups({ number, iteration, given, tick }) {
  const by = given.by || "group";
  const { data, error } = useAnswer(`runs/${number}/groups`, { iteration, by }, tick);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const cells = { group: (id) => html`<a href=${address(["r", number, "i", String(iteration), "g", String(id)], { by })}><${Short} id=${id} /></a>` };
  return html`${data.by.length > 1 && html`<${Choice} label="Grouping" value=${by} options=${data.by.map((name) => [name, name])} onChange=${(value) => change({ by: value })} />`}
    <${Answer} answer=${data} run=${number} cells=${cells} hide=${unknown(data)} />`;
}

function Updates({ number, iteration, tick }) {
  const { data, error } = useAnswer(`runs/${number}/updates`, { iteration }, tick);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const cells = { task: (task, row) => html`<a href=${episode(number, iteration, row)}>${task}</a>` };
  return html`<h2>Rows by what became of them</h2><${Answer} answer=${data.reasons} run=${number} />
    <h2>The rows that moved the weights most</h2><p class="quiet">by <code>logit_grad</code>, the size of a row's gradient, where it is logged; else by the size of the advantage</p>
    <${Answer} answer=${data.largest} run=${number} cells=${cells} hide=${unknown(data.largest)} />`;
}

