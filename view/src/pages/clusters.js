// Clusters of observations, or of the entries of a memory, as of an iteration.
import { html } from "htm/preact";
import { address, change, episode, useAnswer } from "../api.js";
import { Answer, Problem, Waiting, records } from "../parts.js";
import { unknown } from "./iteration.js";

export function Clusters({ number, run, parts, given, tick }) {
  const [node] = parts;
  const { first, last } = run.iterations;
  const iteration = given.i === undefined ? last : Number(given.i);
  const { data, error } = useAnswer(`runs/${number}/clusters`, { node, iteration }, tick);
  const choose = (id) => html`<button class="plain" onClick=${() => change({ cluster: id })}>${id}</button>`;
  const cells = { cluster: choose, task: (task, row) => html`<a href=${episode(number, row.since, row)}>${task}</a>` };
  if (error) return html`<${Problem} error=${error} />`;
  return html`<p><label class="choice">As of iteration <input type="number" min=${first} max=${last} value=${iteration} onChange=${(event) => change({ i: event.target.value })} /></label></p>
    ${given.cluster && html`<${Members} number=${number} node=${node} iteration=${iteration} id=${given.cluster} prototype=${data && records(data).find((row) => String(row.cluster) === given.cluster)?.prototype} />`}
    ${data ? html`<p class="quiet prose">A number leads to the members of the cluster, a task to the episode that founded it. <code>told</code>: turns of iterations ${data.first} to ${iteration} that were given an entry of a memory.
      Of a cluster of observations the members are turns, and its <code>entries</code> were written at one of them or linked to it, and are still in a memory. Of a memory's cluster the members are the entries that are still in it.</p>
      <${Answer} answer=${data} run=${number} cells=${cells} hide=${unknown(data)} />` : html`<${Waiting} />`}`;
}

function Members({ number, node, iteration, id, prototype }) {
  const { data, error } = useAnswer(`runs/${number}/cluster`, { node, iteration, id });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const entry = (memory) => (value) => html`<a href=${address(["r", number, "memory", memory], { i: iteration, entry: value })}>${value}</a>`;
  const cells = { id: entry(node), task: (task, row) => html`<a href=${episode(number, row.iteration, row)}>${task}</a>` };
  return html`<aside class="box"><h2>Cluster ${id} <button onClick=${() => change({ cluster: "" })}>close</button></h2>${prototype && html`<pre>${prototype}</pre>`}
    ${data.entries?.rows.length > 0 && html`<${Answer} answer=${data.entries} run=${number} cells=${{ id: (value, row) => entry(row.memory)(value) }} caption="Its entries; linked: a turn of the cluster was given it before, and it was written elsewhere" />`}
    <${Answer} answer=${data.members} run=${number} cells=${cells} caption="Its members, the newest first" /></aside>`;
}
