// An iteration's turns by other estimators, beside the advantages that were logged or that the other trainer's file has.
import { html } from "htm/preact";
import { episode, useAnswer } from "../api.js";
import { Problem, Sql, Table, Waiting, records, shown, step } from "../parts.js";

/** The estimators, and how each judges a turn. */
const BY = {
  grpo: ["GRPO", "the return of its episode, compared with the other episodes of the task: one number for all turns of an episode"],
  gigpo: ["GiGPO", "GRPO's, and the return from this turn on, compared with other turns in the same state"],
  rtmc: ["RTMC", "how much better the next state is than this one, by the mean return of all turns in a state"],
};
const KNOWN = { theirs: "theirs", logged: "logged" };

/** In three digits; what rounding leaves of 0 is 0. */
const rounded = (value) => (typeof value !== "number" ? value : Math.abs(value) < 1e-6 ? 0 : Number(value.toPrecision(3)));

const percent = (share) => `${(100 * share).toFixed(0)}%`;

export function Credit({ number, iteration, tick }) {
  const { data, error } = useAnswer(`runs/${number}/credit`, { iteration }, tick);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  if (!data.rewards) return html`<p>The turns of this run have no reward, so no estimator can judge them.</p>`;
  const known = KNOWN[data.known];
  const names = Object.keys(BY).filter((name) => data.by[name]);
  const rows = records(data.turns).map(({ advantage, ...row }, i) => ({ ...row, ...(known ? { [known]: advantage } : {}), ...Object.fromEntries(names.map((name) => [name, data.by[name][i]])) }));
  const largest = (name) => Math.max(0, ...rows.map((row) => Math.abs(row[name] ?? 0)));
  const most = Object.fromEntries([known, ...names].filter(Boolean).map((name) => [name, largest(name)]));
  const coloured = (name) => (value) => html`<span class=${`token ${step(most[name] > 0 ? (rounded(value) || 0) / most[name] : 0)}`}>${shown(rounded(value))}</span>`;
  const cells = {
    task: (task, row) => html`<a href=${episode(number, iteration, row)}>${task}</a>`,
    ...Object.fromEntries(Object.keys(most).map((name) => [name, coloured(name)])),
  };
  const columns = ["task", "sample", ...(rows.some((row) => row.attempt > 0) ? ["attempt"] : []), "turn", "action", "reward", ...Object.keys(most)];
  return html`<h2>The same turns, judged by ${names.length} estimators</h2>
    <p class="prose">Computed from the logged rewards${data.alone === null ? "" : " and states"}: nothing is generated or trained. Above 0 a turn would be made likelier, below 0 less likely.${" "}
      ${known === "theirs" && html`The column <em>theirs</em> has the advantages in the other trainer's file.`}${known === "logged" && html`The column <em>logged</em> has the advantages that this run trained on.`}
      ${!known && "The file has no advantages of its own."}</p>
    <table><thead><tr><th>estimator</th><th>a turn is judged by</th>${known && html`<th class="number">same sign as ${known}</th>`}</tr></thead>
      <tbody>${names.map((name) => html`<tr key=${name}><th scope="row">${BY[name][0]}</th><td>${BY[name][1]}</td>${known && html`<td class="number">${percent(data.agree[name])}</td>`}</tr>`)}</tbody></table>
    ${data.alone === null && data.count > 0 && html`<p class="problem">GiGPO and RTMC compare turns in one state, and these rows have no column <code>state</code>.</p>`}
    ${data.alone > 0 && html`<p>${percent(data.alone / data.count)} of the turns are alone in their state: there GiGPO is GRPO, and RTMC compares a single return with the next one.${data.known === "theirs" || !known ? " The state of an imported turn is its whole conversation so far." : ""}</p>`}
    <${Table} columns=${columns} rows=${rows} cells=${cells} more=${data.turns.more} caption="Turns: a click on a column sorts" /><${Sql} sql=${data.turns.sql} run=${number} />`;
}
