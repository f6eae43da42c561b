// A frozen panel: which tasks are won, and since when.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { ask, change, episode, useAnswer } from "../api.js";
import { Answer, Choice, Problem, Table, Waiting, records, shown } from "../parts.js";
import { Figure } from "./overview.js";

export function Panel({ number, run, parts, given, tick }) {
  const [node] = parts;
  const { data, error } = useAnswer(`runs/${number}/panel`, { node, iteration: given.i ?? run.iterations.last }, tick);
  const listed = useAnswer("runs").data?.runs || [];
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const wanted = data.iteration;
  const cells = { task: (task) => html`<a href=${episode(number, wanted, { task, sample: 0 }, node)}>${task}</a>` };
  const figures = ["success", "return"].filter((name) => run.figures[node]?.[name]);
  return html`<section class="curves">${figures.map((name) => html`<${Figure} key=${name} number=${number} node=${node} name=${name} tick=${tick} />`)}</section>
    <p><${Choice} label="Iteration" value=${String(wanted)} options=${data.iterations.map((iteration) => [String(iteration), String(iteration)])} onChange=${(i) => change({ i })} /></p>
    <${Rivals} number=${number} node=${node} given=${given} listed=${listed} />
    ${data.ever && html`<${Never} answer=${data.ever} number=${number} node=${node} at=${wanted} />`}
    ${data.pass && html`<${Passes} pass=${data.pass} />`}
    <${Answer} answer=${data} run=${number} cells=${cells} />`;
}

/** pass@k with its interval: a bar to the value, a line over the interval. */
function Passes({ pass }) {
  const at = (share) => 300 * share;
  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  return html`<div class="scroll"><table class="bars pass"><caption>pass@k: the share of the trials that were won within k attempts, with its 95% interval over tasks (bootstrap)</caption>
    <tbody>${pass.map(([k, value, low, high]) => html`<tr key=${k}><th scope="row">pass@${k}</th><td><svg width="300" height="14" role="img" aria-label=${`${percent(value)}, ${percent(low)} to ${percent(high)}`}>
      <rect x="0" y="2" height="10" width=${at(value)} class="plus" /><line x1=${at(low)} x2=${at(high)} y1="7" y2="7" /></svg></td>
      <td class="number">${percent(value)}</td><td class="quiet">${percent(low)} to ${percent(high)}</td></tr>`)}</tbody></table></div>`;
}

/** The tasks that no measurement so far has won, and those that are won seldom. */
function Never({ answer, number, node, at }) {
  const rows = records(answer);
  const never = rows.filter((row) => row.won_in === 0);
  const cells = { task: (task) => html`<a href=${episode(number, at, { task, sample: 0 }, node)}>${task}</a>` };
  const latest = Math.max(...rows.map((row) => row.measurements));
  return html`<details open=${never.length > 0 && never.length <= 20}><summary>${never.length} of ${rows.length} tasks were won in none of ${latest} measurements</summary>
    <${Table} columns=${["task", "measurements", "won_in", "won_last"]} rows=${rows.slice(0, 100)} cells=${cells} /></details>`;
}

/** Which of several runs wins which task, each at its last measurement. */
function Rivals({ number, node, given, listed }) {
  const chosen = given.runs ? given.runs.split(",") : [];
  const others = listed.filter((run) => !run.error && String(run.number) !== number);
  const toggle = (own) => change({ runs: (chosen.includes(own) ? chosen.filter((one) => one !== own) : [...chosen, own]).join(",") });
  if (others.length === 0) return null;
  return html`<details open=${chosen.length > 0}><summary>beside other runs</summary><p>${others.slice(0, 40).map((run) => html`<label class="choice" key=${run.number}><input type="checkbox" checked=${chosen.includes(String(run.number))} onChange=${() => toggle(String(run.number))} /> ${run.folder.split("/").at(-1)}</label>`)}</p>
    ${chosen.length > 0 && html`<${Wins} numbers=${[number, ...chosen]} node=${node} listed=${listed} />`}</details>`;
}

function Wins({ numbers, node, listed }) {
  const [state, set] = useState({});
  useEffect(() => {
    let over = false;
    const newest = async (one) => {
      const { iterations } = await ask(`runs/${one}/run`);
      const answer = await ask(`runs/${one}/panel`, { node, iteration: iterations.last });
      return { one, at: answer.iteration, rows: records(answer) };
    };
    Promise.all(numbers.map(newest)).then((all) => over || set({ all }), (error) => over || set({ error: error.message }));
    return () => { over = true; };
  }, [numbers.join(","), node]);
  if (state.error) return html`<${Problem} error=${state.error} />`;
  if (!state.all) return html`<${Waiting} />`;
  const name = (one) => listed.find((run) => String(run.number) === one)?.folder.split("/").at(-1) || one;
  const tasks = [...new Set(state.all.flatMap(({ rows }) => rows.map((row) => row.task)))].sort();
  const won = (entry, task) => entry.rows.find((row) => row.task === task)?.won ?? null;
  const rows = tasks.map((task) => Object.fromEntries([["task", task], ...state.all.map((entry) => [name(entry.one), won(entry, task)])]));
  const cells = Object.fromEntries(state.all.map((entry) => [name(entry.one), (value, row) => html`<a href=${episode(entry.one, entry.at, { task: row.task, sample: 0 }, node)}>${shown(value)}</a>`]));
  const [a, b] = state.all;
  const only = (x, y) => tasks.filter((task) => won(x, task) > 0 && won(y, task) === 0).length;
  return html`${state.all.length === 2 && html`<p>${only(a, b)} tasks are won by ${name(a.one)} alone, ${only(b, a)} by ${name(b.one)} alone, of ${tasks.length}.</p>`}
    <${Table} columns=${["task", ...state.all.map((entry) => name(entry.one))]} rows=${rows} cells=${cells} />`;
}
