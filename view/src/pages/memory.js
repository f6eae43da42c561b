// A memory: how it grew, what is in it as of an iteration, and what became of the episodes that were told it.
import { html } from "htm/preact";
import { change, episode, useAnswer } from "../api.js";
import { Curve } from "../curve.js";
import { Answer, Problem, Sql, Table, Waiting, records } from "../parts.js";

export function Memory({ number, run, parts, given, tick }) {
  const [node] = parts;
  const { first, last } = run.iterations;
  const iteration = given.i === undefined ? last : Number(given.i);
  const { data, error } = useAnswer(`runs/${number}/memory`, { node, iteration }, tick);
  const told = useAnswer(`runs/${number}/told`, { iteration }, tick);
  const texts = new Map(data ? records(data.entries).map((row) => [String(row.id), row.text]) : []);
  const entry = given.entry !== undefined && html`<${Retrievals} key="entry" number=${number} id=${given.entry} text=${texts.get(given.entry)} />`;
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`${entry}<${Waiting} />`;
  // The figure is logged when the memory changes.
  const growth = [...data.growth.points];
  if (growth.length > 0 && growth.at(-1)[0] < last) growth.push([last, growth.at(-1)[1]]);
  const choose = (id) => html`<button class="plain" onClick=${() => change({ entry: id })}>${id}</button>`;
  const cells = { id: choose, task: (task, row) => html`<a href=${episode(number, row.since, row)}>${task}</a>` };
  return html`<p><label class="choice">As of iteration <input type="number" min=${first} max=${last} value=${iteration} onChange=${(event) => change({ i: event.target.value })} /></label></p>
    ${entry}
    <${Told} answer=${told} number=${number} iteration=${iteration} texts=${texts} choose=${choose} />
    <h2>Entries</h2><${Answer} answer=${data.entries} run=${number} cells=${cells} caption="Each number leads to the turns that were told the entry, each task to the episode that wrote it" />
    <h2>Growth</h2><${Curve} title="entries" lines=${[{ label: "entries", points: growth.map(([at, entries]) => [at, entries]) }]} onPoint=${(i) => change({ i })} />`;
}

/** Which entries helped: episodes that were told one beside the others of the same tasks and iterations. */
function Told({ answer: { data, error }, number, iteration, texts, choose }) {
  if (error) return html`<h2>Which entries helped</h2><${Problem} error=${error} />`;
  if (!data) return html`<h2>Which entries helped</h2><${Waiting} />`;
  const rows = records(data).map((row) => ({ ...row, in_memory: texts.has(String(row.id)) }));
  return html`<h2>Which entries helped</h2>
    <p class="quiet">Of iterations ${data.first} to ${iteration}: the mean return of the episodes that were told an entry, and of the other episodes of the same tasks between the first and the last
      iteration in which it was told. It is no experiment: what an entry is told for may be easier. A control that tells entries of other tasks (<code>whose: another</code>) is one.</p>
    <${Table} columns=${["id", "text", "in_memory", "told", "return_with", "return_without", "difference", "won_with", "won_without"]} rows=${rows} cells=${{ id: choose }} more=${data.more} /><${Sql} sql=${data.sql} run=${number} />`;
}

function Retrievals({ number, id, text }) {
  const { data, error } = useAnswer(`runs/${number}/retrievals`, { id });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const rows = records(data);
  const cells = { task: (task, row) => html`<a href=${episode(number, row.iteration, row)}>${task}</a>` };
  text ??= data.text;
  return html`<aside class="box"><h2>Entry ${id} <button onClick=${() => change({ entry: "" })}>close</button></h2>${typeof text === "string" && html`<pre>${text}</pre>`}
    <p>${rows.length === 0 ? "No turn was told it." : `${rows.length}${data.more ? " or more" : ""} turns were told it.`}</p>
    ${rows.length > 0 && html`<${Answer} answer=${data} run=${number} cells=${cells} />`}</aside>`;
}
