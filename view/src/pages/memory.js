// A memory: how it grew, what is in it as of an iteration, and what became of what was told.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { change, useAnswer } from "../api.js";
import { Curve } from "../curve.js";
import { Answer, Problem, Waiting, records } from "../parts.js";
import { episode } from "./iteration.js";

export function Memory({ number, run, parts, given, tick }) {
  const [node] = parts;
  const { first, last } = run.iterations;
  const iteration = given.i === undefined ? last : Number(given.i);
  const { data, error } = useAnswer(`runs/${number}/memory`, { node, iteration }, tick);
  const [entry, setEntry] = useState(null);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const growth = data.growth.points;
  const cells = {
    id: (id) => html`<button class="plain" onClick=${() => setEntry(id)}>${id}</button>`,
    task: (task, row) => html`<a href=${episode(number, row.since, row)}>${task}</a>`,
  };
  return html`<${Curve} title="entries" lines=${[{ label: "entries", points: growth.map(([at, entries]) => [at, entries]) }]} onPoint=${(i) => change({ i })} />
    <p><label class="choice">As of iteration <input type="number" min=${first} max=${last} value=${iteration} onChange=${(event) => change({ i: event.target.value })} /></label></p>
    ${entry !== null && html`<${Retrievals} number=${number} id=${entry} />`}
    <${Answer} answer=${data.entries} run=${number} cells=${cells} caption="Entries; a number shows the turns that were told it" />`;
}

function Retrievals({ number, id }) {
  const { data, error } = useAnswer(`runs/${number}/retrievals`, { id });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const rows = records(data);
  const cells = { task: (task, row) => html`<a href=${episode(number, row.iteration, row)}>${task}</a>` };
  return html`<aside class="box"><h2>Entry ${id}</h2><p>${rows.length === 0 ? "No turn was told it." : `${rows.length}${data.more ? " or more" : ""} turns were told it.`}</p>
    ${rows.length > 0 && html`<${Answer} answer=${data} run=${number} cells=${cells} />`}</aside>`;
}
