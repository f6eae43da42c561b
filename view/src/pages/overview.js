// A run at a glance: its graph, what its nodes do, its main curves.
import { html } from "htm/preact";
import { address, change, useAnswer } from "../api.js";
import { Curve } from "../curve.js";
import { Graph } from "../graph.js";
import { Problem, Sentence, Sql, shown } from "../parts.js";

/** The figures that are drawn first, where a run has them. */
const FIRST = ["success", "return", "loss", "entropy", "kl", "grad_norm", "entries"];

/** The lines of the pipeline that say what a node is. */
function excerpt(yaml, id) {
  const lines = yaml.split("\n");
  const start = lines.findIndex((line) => line.trimStart() === `${id}:`);
  if (start < 0) return null;
  const depth = lines[start].length - lines[start].trimStart().length;
  let end = start + 1;
  while (end < lines.length && (lines[end].trim() === "" || lines[end].length - lines[end].trimStart().length > depth)) end += 1;
  return { from: start + 1, text: lines.slice(start, end).join("\n") };
}

export function Overview({ number, run, given, tick, now }) {
  const nodes = run.graph?.nodes || [];
  const share = now.seconds > 0 ? (busy) => `${((100 * busy) / now.seconds).toFixed(0)}%` : () => "";
  const activity = Object.fromEntries((now.nodes || []).map((node) => {
    const doing = node.state === "running" ? `at ${node.iteration}` : node.state === "waiting" ? `waits for ${node.waits_for.join(", ")}` : "";
    return [node.node, { state: node.state, text: [node.rows ? `${node.rows} rows` : "", share(node.busy_seconds), doing].filter(Boolean).join(", ") }];
  }));
  const chosen = nodes.find((node) => node.id === given.node);
  const figures = Object.entries(run.figures).flatMap(([node, names]) => Object.keys(names).map((name) => ({ node, name })));
  const first = figures.filter(({ name }) => FIRST.includes(name)).sort((a, b) => FIRST.indexOf(a.name) - FIRST.indexOf(b.name)).slice(0, 8);
  const newest = (view) => address(["r", number, "i", String(Math.min(run.iterations.last, run.info.iterations - 1))], { view });
  return html`<section><p>${run.graph?.about}</p>
      <p class="bottleneck" title="from the figures of all committed iterations"><${Sentence} text=${run.bottleneck} /></p>
      ${run.iterations.last !== null && html`<p>The newest iteration: <a href=${newest()}>its episodes</a> · <a href=${newest("groups")}>groups of compared turns</a> · <a href=${newest("credit")}>its turns by other estimators</a></p>`}
      <${Problem} error=${run.graph_error} />
      ${nodes.length > 0 && html`<${Graph} nodes=${nodes} activity=${activity} chosen=${chosen?.id} onChoose=${(id) => change({ node: id === given.node ? "" : id })} />`}
      ${chosen && html`<${NodeBox} node=${chosen} number=${number} run=${run} />`}</section>
    <section class="curves">${first.map(({ node, name }) => html`<${Figure} key=${`${node} ${name}`} number=${number} node=${node} name=${name} tick=${tick} />`)}</section>
    <section><h2>Where the time went</h2><${Times} now=${now} /></section>`;
}

/** The seconds of each node and their share of the run's; nodes may work at the same time. */
function Times({ now }) {
  const whole = now.seconds || 0;
  const nodes = (now.nodes || []).filter((node) => !node.engine);
  const counts = Object.entries(now.tokens || {});
  if (nodes.length === 0) return html`<p class="quiet">No node logged how long it took.</p>`;
  const longest = Math.max(...nodes.map((node) => node.busy_seconds), 1e-9);
  return html`<p class="quiet">${shown(Number(whole.toFixed(1)))} seconds in all. Nodes can work at the same time, so their shares may sum to more than 100%.</p>
    <div class="scroll"><table class="bars"><thead><tr><th>node</th><th>rows</th><th colspan="2">busy seconds</th><th>share</th></tr></thead><tbody>
    ${nodes.map(({ node, rows, busy_seconds: busy }) => html`<tr key=${node}><th scope="row">${node}</th><td class="number">${rows}</td>
      <td><svg width="200" height="14" aria-hidden="true"><rect x="0" y="2" height="10" width=${(200 * busy) / longest} class="plus" /></svg></td>
      <td class="number">${busy.toFixed(2)}</td><td class="number">${whole > 0 ? `${((100 * busy) / whole).toFixed(1)}%` : ""}</td></tr>`)}</tbody></table></div>
    ${counts.length > 0 && html`<p class="quiet">Tokens computed per distinct token: ${counts.map(([node, { computed, distinct }]) => `${node} ${(computed / Math.max(1, distinct)).toFixed(2)} (${distinct} distinct)`).join(", ")}.</p>`}`;
}

/** One figure of one run; a point leads to its iteration. */
export function Figure({ number, node, name, tick }) {
  const { data, error } = useAnswer(`runs/${number}/curve`, { node, name }, tick);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<div class="curve"></div>`;
  const lines = [{ label: name, points: data.points.map(([iteration, value]) => [iteration, value]) }];
  return html`<figure><${Curve} title=${`${name} (${node})`} lines=${lines} onPoint=${(iteration) => { location.hash = address(["r", number, "i", String(iteration)]); }} />
    ${data.each > 1 && html`<p class="quiet">each point is the mean of ${data.each} iterations</p>`}<${Sql} sql=${data.sql} run=${number} /></figure>`;
}

/** What a node is: its settings with their lines, its rows, its figures. */
function NodeBox({ node, number, run }) {
  const lines = excerpt(run.yaml, node.id);
  const figures = Object.keys(run.figures[node.id] || {});
  const table = run.tables.find((table) => table.name === node.id);
  return html`<aside class="box"><h2>${node.id} <span class="quiet">${node.op}</span></h2>
    <p>${node.inputs.map((input) => html`<span key=${input.port} class="tag">${input.port} from ${input.from}${input.staleness === null ? "" : `, of the iteration before (staleness ${input.staleness})`}</span>`)}</p>
    ${lines ? html`<p class="quiet">pipeline.yaml, line ${lines.from}</p><pre>${lines.text}</pre>` : html`<pre>${JSON.stringify(node.with, null, 2)}</pre>`}
    <p>${table ? html`<a href=${`#/r/${number}/sql?${new URLSearchParams({ q: `SELECT * FROM "${node.id}" LIMIT 20` })}`}>its rows</a>, with ${table.columns.length} columns` : "its rows aren't logged"}
      ${figures.length > 0 && html`; <a href=${`#/r/${number}/curves?${new URLSearchParams({ f: figures.map((name) => `${node.id} ${name}`).join(",") })}`}>its ${figures.length} figures</a>`}</p></aside>`;
}

