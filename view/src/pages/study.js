// The tables of a study: a cell leads to what it was asked and to the runs behind it.
import { html } from "htm/preact";
import { change, useAnswer } from "../api.js";
import { Problem, Waiting } from "../parts.js";

export function Study({ given }) {
  const { data, error } = useAnswer("study");
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const chosen = (table, row, column) => given.table === table && given.row === row && given.column === column;
  const choose = (table, row, column) => change(chosen(table, row, column) ? { table: "", row: "", column: "" } : { table, row, column });
  return html`<h1>${data.title}</h1><p class="prose">${data.about}</p><p class="quiet">Means over the seeds with their intervals; ${data.page} has the verdicts. A click on a cell says where it comes from.</p>
    ${data.tables.map((table) => html`<section key=${table.title}><h2>${table.title}</h2><p class="prose">${table.about}</p>
      <div class="scroll"><table class="study"><thead><tr><th></th>${table.columns.map((name) => html`<th key=${name} class="number">${name}</th>`)}</tr></thead>
      <tbody>${table.rows.map((row) => html`<tr key=${row.name}><th scope="row">${row.name}</th>${row.cells.map((text, i) => html`<td key=${i} class=${`number ${chosen(table.title, row.name, table.columns[i]) ? "chosen" : ""}`}><button class="plain" onClick=${() => choose(table.title, row.name, table.columns[i])}>${text}</button></td>`)}</tr>`)}</tbody></table></div>
      ${given.table === table.title && html`<${Origin} given=${given} runs=${table.rows.find((row) => row.name === given.row)?.runs || []} />`}</section>`)}`;
}

/** Where a cell comes from, with a link to each run. */
function Origin({ given, runs }) {
  const { table, row, column } = given;
  const { data, error } = useAnswer("study", { table, row, column });
  const listed = useAnswer("runs").data?.runs || [];
  const links = [...new Set(runs)].map((folder) => ({ folder, number: listed.find((run) => run.folder === folder)?.number }));
  return html`<aside class="box"><h3>${row}, ${column}</h3><${Problem} error=${error} />
    <p>${links.map(({ folder, number }, i) => html`${i > 0 && " · "}${number === undefined ? folder : html`<a key=${folder} href=${`#/r/${number}`}>${folder}</a>`}`)}</p>
    ${data ? html`<pre>${data.text}</pre>` : html`<${Waiting} />`}</aside>`;
}
