// Two runs: what `flow diff` says of them.
import { html } from "htm/preact";
import { change, episode, useAnswer } from "../api.js";
import { Choice, Problem, Table, Waiting, shown } from "../parts.js";

export function Compare({ number, given }) {
  const listed = useAnswer("runs").data?.runs || [];
  const others = listed.filter((run) => String(run.number) !== number && !run.error);
  return html`<p><${Choice} label="Compare with" value=${given.with || ""} options=${[["", "choose a run"], ...others.map((run) => [String(run.number), run.folder])]} onChange=${(value) => change({ with: value })} /></p>
    ${given.with && html`<${Difference} key=${given.with} number=${number} other=${given.with} />`}`;
}

function Difference({ number, other }) {
  return html`<${First} number=${number} other=${other} /><h2>What <code>flow diff</code> says</h2><${All} number=${number} other=${other} />`;
}

/** The first turns that the two runs took otherwise. */
function First({ number, other }) {
  const { data, error } = useAnswer(`runs/${number}/first`, { with: other });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  if (data.equal) return html`<h2>The first difference</h2><p>The episodes of both runs are the same in all ${data.iterations} iterations.</p>`;
  const side = (run, row, name) => (row ? html`<td><a href=${episode(run, data.iteration, name)}>${row.action || row.response}</a>${typeof row.reward === "number" && html`<br /><span class="quiet">reward ${shown(row.reward)}</span>`}${row.action !== row.response && html`<pre>${row.response}</pre>`}</td>` : html`<td class="quiet">no such turn</td>`);
  return html`<h2>The first difference: iteration ${data.iteration}</h2>
    <p>${data.differ} of its ${Math.max(...data.rows)} turns differ. ${data.tasks_in_both === 0 ? "The runs played no task in common." : `The runs played ${data.tasks_in_both} tasks in common.`}</p>
    <div class="scroll"><table class="first"><thead><tr><th>task</th><th>sample</th><th>turn</th><th>seen</th><th>this run</th><th>the other run</th></tr></thead>
    <tbody>${data.first.map(({ name, a, b }, i) => html`<tr key=${i}><td>${name.task}</td><td class="number">${name.sample}</td><td class="number">${name.turn}</td><td><pre>${(a || b).observation}</pre>${a && b && a.observation !== b.observation && html`<span class="quiet">the other saw</span><pre>${b.observation}</pre>`}</td>${side(number, a, name)}${side(other, b, name)}</tr>`)}</tbody></table></div>`;
}

function All({ number, other }) {
  const { data, error } = useAnswer(`runs/${number}/diff`, { with: other });
  if (error) return html`<pre class="problem" role="alert">${error}</pre>`;
  if (!data) return html`<${Waiting} />`;
  return html`<${Tree} value=${data.diff} open=${true} />`;
}

/** What was answered, part by part; a list of things of one kind is a table. */
function Tree({ value, open }) {
  if (value === null || typeof value !== "object") return html`<code>${value === null ? "none" : String(value)}</code>`;
  if (Array.isArray(value) && value.length > 0 && value.every((part) => part !== null && typeof part === "object" && !Array.isArray(part))) {
    const columns = [...new Set(value.flatMap(Object.keys))];
    const rows = value.map((part) => Object.fromEntries(columns.map((name) => [name, typeof part[name] === "object" && part[name] !== null ? JSON.stringify(part[name], null, 1) : part[name] ?? null])));
    return html`<${Table} columns=${columns} rows=${rows} />`;
  }
  const entries = Object.entries(value);
  if (entries.length === 0) return html`<span class="quiet">none</span>`;
  return html`<dl class="tree">${entries.map(([name, part]) => html`<dt key=${name}>${name}</dt><dd>${part !== null && typeof part === "object" && !open && Object.keys(part).length > 6 ? html`<details><summary>${Object.keys(part).length} parts</summary><${Tree} value=${part} /></details>` : html`<${Tree} value=${part} />`}</dd>`)}</dl>`;
}
