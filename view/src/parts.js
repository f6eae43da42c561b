// What all pages are made of: tables, numbers, the SQL behind an answer.
import { html } from "htm/preact";
import { useState } from "preact/hooks";

/** A number with as many digits as can be read; anything else as it is. */
export function shown(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.length > 8 ? `${value.length} values` : value.map(shown).join(", ");
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-3 ? value.toExponential(3) : String(Number(value.toPrecision(5)));
}

/** Rows of an answer as objects. */
export const records = (answer) => answer.rows.map((row) => Object.fromEntries(answer.columns.map((name, i) => [name, row[i]])));

export const Problem = ({ error }) => error && html`<p class="problem" role="alert">${error}</p>`;
export const Waiting = () => html`<p class="quiet">reading the log …</p>`;

/** A sentence with code between backticks. */
export const Sentence = ({ text }) => text.split("`").map((part, i) => (i % 2 ? html`<code key=${i}>${part}</code>` : part));

/** The question behind what is shown. */
export const Sql = ({ sql, run }) => sql && html`<details class="sql"><summary>SQL</summary><pre>${sql}</pre>
  <a href=${`#/r/${run}/sql?${new URLSearchParams({ q: sql })}`}>ask it</a></details>`;

/** How many rows are drawn at once: a browser takes longer to lay out a long table than the log to answer. */
const FIRST = 100;

/** A table that sorts by a click on a column. `cells` may draw a column in another way, `link` leads from a row. */
export function Table({ columns, rows, cells = {}, caption, more, sort: first }) {
  const [sort, setSort] = useState(first || null);
  const [whole, setWhole] = useState(false);
  const numbers = columns.filter((name) => rows.some((row) => typeof row[name] === "number") && rows.every((row) => row[name] === null || typeof row[name] === "number"));
  const numeric = (name) => numbers.includes(name);
  const sorted = [...rows];
  if (sort) {
    const { name, down } = sort;
    const order = (a, b) => (a === b ? 0 : a === null || a === undefined ? 1 : b === null || b === undefined ? -1 : (a < b ? -1 : 1) * (down ? -1 : 1));
    sorted.sort((a, b) => order(a[name], b[name]));
  }
  const by = (name) => setSort(sort?.name === name ? (sort.down ? { name, down: false } : null) : { name, down: true });
  const direction = (name) => (sort?.name === name ? (sort.down ? "descending" : "ascending") : "none");
  return html`<div class="scroll"><table>
    ${caption && html`<caption>${caption}</caption>`}
    <thead><tr>${columns.map((name) => html`<th key=${name} class=${numeric(name) ? "number" : ""} aria-sort=${direction(name)}>
      <button onClick=${() => by(name)}>${name.replaceAll("_", " ")}${sort?.name === name ? (sort.down ? " ↓" : " ↑") : ""}</button></th>`)}</tr></thead>
    <tbody>${(whole ? sorted : sorted.slice(0, FIRST)).map((row, i) => html`<tr key=${i}>${columns.map((name) => html`<td key=${name} class=${numeric(name) ? "number" : ""}>
      ${cells[name] ? cells[name](row[name], row) : html`<${Cell} value=${row[name]} />`}</td>`)}</tr>`)}</tbody>
  </table>${!whole && rows.length > FIRST && html`<p><button onClick=${() => setWhole(true)}>show the other ${rows.length - FIRST} rows</button></p>`}${rows.length === 0 && html`<p class="quiet">no rows</p>`}${more && html`<p class="quiet">There are more rows than these ${rows.length}: ask in SQL for the others.</p>`}</div>`;
}

/** A value; a long text opens by a click, so that nothing is cut off for good. */
function Cell({ value }) {
  const text = shown(value);
  if (typeof value !== "string" || (text.length < 80 && !text.includes("\n"))) return text;
  const line = text.split("\n")[0].slice(0, 70);
  return html`<details class="long"><summary>${line} …</summary><pre>${text}</pre></details>`;
}

/** An answer as a table. */
export const Answer = ({ answer, run, cells, caption, sort, hide = [] }) => html`
  <${Table} columns=${answer.columns.filter((name) => !hide.includes(name))} rows=${records(answer)} cells=${cells} caption=${caption} more=${answer.more} sort=${sort} />
  <${Sql} sql=${answer.sql} run=${run} />`;

/** One of several choices, each with its name and, where it can't be chosen, the reason. */
export const Choice = ({ label, value, options, onChange }) => html`<label class="choice">${label}
  <select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([key, name, lacks]) => html`<option key=${key} value=${key} selected=${key === value} disabled=${Boolean(lacks)} title=${lacks || ""}>${name}${lacks ? ` (${lacks.split(":")[0]})` : ""}</option>`)}</select></label>`;

/** A long number in a few digits; the whole one where the pointer rests. */
export const Short = ({ id }) => (String(id).length > 8 ? html`<span title=${id}>${String(id).slice(0, 6)}…</span>` : String(id));

/** The class of a colour, from 4 steps below 0 to 4 above. */
export const step = (strong) => (strong === 0 ? "" : `${strong < 0 ? "minus" : "plus"}${Math.min(4, Math.max(1, Math.ceil(Math.abs(strong) * 4)))}`);
