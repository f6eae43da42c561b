// A frozen panel: which tasks are won, and since when.
import { html } from "htm/preact";
import { change, useAnswer } from "../api.js";
import { Answer, Choice, Problem, Waiting } from "../parts.js";
import { Figure } from "./overview.js";
import { episode } from "./iteration.js";

export function Panel({ number, run, parts, given, tick }) {
  const [node] = parts;
  const wanted = given.i ?? run.iterations.last;
  const { data, error } = useAnswer(`runs/${number}/panel`, { node, iteration: wanted }, tick);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const played = data.iterations.map(String);
  if (played.length && !played.includes(String(wanted))) change({ i: played.at(-1) });
  const cells = { task: (task) => html`<a href=${episode(number, wanted, { task, sample: 0 }, node)}>${task}</a>` };
  const figures = ["success", "return"].filter((name) => run.figures[node]?.[name]);
  return html`<section class="curves">${figures.map((name) => html`<${Figure} key=${name} number=${number} node=${node} name=${name} tick=${tick} />`)}</section>
    <p><${Choice} label="Iteration" value=${String(wanted)} options=${played.map((iteration) => [iteration, iteration])} onChange=${(i) => change({ i })} /></p>
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
