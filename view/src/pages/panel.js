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
  const played = data.iterations.map(([iteration]) => String(iteration));
  if (played.length && !played.includes(String(wanted))) change({ i: played.at(-1) });
  const cells = { task: (task) => html`<a href=${episode(number, wanted, { task, sample: 0 }, node)}>${task}</a>` };
  const figures = ["success", "return"].filter((name) => run.figures[node]?.[name]);
  return html`<section class="curves">${figures.map((name) => html`<${Figure} key=${name} number=${number} node=${node} name=${name} tick=${tick} />`)}</section>
    <p><${Choice} label="Iteration" value=${String(wanted)} options=${played.map((iteration) => [iteration, iteration])} onChange=${(i) => change({ i })} /></p>
    <${Answer} answer=${data} run=${number} cells=${cells} />`;
}
