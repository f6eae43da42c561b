// Two runs: what `flow diff` says of them.
import { html } from "htm/preact";
import { change, useAnswer } from "../api.js";
import { Choice, Problem, Table, Waiting } from "../parts.js";

export function Compare({ number, given }) {
  const listed = useAnswer("runs").data?.runs || [];
  const others = listed.filter((run) => String(run.number) !== number && !run.error);
  return html`<p><${Choice} label="Compare with" value=${given.with || ""} options=${[["", "choose a run"], ...others.map((run) => [String(run.number), run.folder])]} onChange=${(value) => change({ with: value })} /></p>
    ${given.with && html`<${Difference} key=${given.with} number=${number} other=${given.with} />`}`;
}

function Difference({ number, other }) {
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
