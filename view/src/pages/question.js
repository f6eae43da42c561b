// Questions in SQL, with a table, a line or bars of what comes out.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { change, useAnswer } from "../api.js";
import { Curve } from "../curve.js";
import { Answer, Choice, Problem, Waiting, records } from "../parts.js";

const BEGIN = [
  ["success by iteration", "SELECT iteration, value AS success FROM metrics WHERE name = 'success' ORDER BY iteration"],
  ["return by iteration", "SELECT iteration, avg(earned) AS earned FROM (SELECT iteration, task, sample, sum(reward) AS earned FROM trajectories GROUP BY ALL) GROUP BY iteration ORDER BY iteration"],
  ["tasks that are never won", "SELECT task, count(DISTINCT (iteration, sample)) AS episodes FROM trajectories GROUP BY task HAVING NOT bool_or(won) ORDER BY episodes DESC"],
  ["rows that were left out, by reason", "SELECT iteration, used, count(*) AS rows FROM provenance WHERE used <> 'yes' GROUP BY ALL ORDER BY ALL"],
  ["where the time goes", "SELECT node, sum(value) AS seconds FROM metrics WHERE name = 'busy_seconds' GROUP BY node ORDER BY seconds DESC"],
  ["actions that can't be carried out", "SELECT action, count(*) AS turns FROM trajectories WHERE NOT valid GROUP BY action ORDER BY turns DESC LIMIT 20"],
];

export function Question({ number, run, given }) {
  const [text, setText] = useState(given.q || BEGIN[0][1]);
  const ask = () => change({ q: text });
  const save = (kind, content) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type: kind }));
    link.download = "answer.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return html`<section class="side"><aside class="box"><h3>To begin from</h3><ul class="list">${BEGIN.map(([name, sql]) => html`<li key=${name}><button class="plain" onClick=${() => { setText(sql); change({ q: sql }); }}>${name}</button></li>`)}</ul>
      <h3>Tables</h3>${run.tables.map((table) => html`<details key=${table.name}><summary>${table.name}</summary><ul class="list">${table.columns.map(([name, kind]) => html`<li key=${name}><code>${name}</code> <span class="quiet">${kind}</span></li>`)}</ul></details>`)}</aside>
    <div><label>A question in SQL<textarea rows="6" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && ask()}></textarea></label>
      <p><button onClick=${ask}>Ask</button> <span class="quiet">or Ctrl+Enter</span>
        <${Choice} label="as" value=${given.as || "table"} options=${[["table", "a table"], ["line", "a line"], ["bars", "bars"]]} onChange=${(as) => change({ as })} /></p>
      ${given.q && html`<${Found} key=${given.q} number=${number} sql=${given.q} as=${given.as || "table"} save=${save} />`}</div></section>`;
}

function Found({ number, sql, as, save }) {
  const { data, error } = useAnswer(`runs/${number}/sql`, { sql });
  if (error) return html`<pre class="problem" role="alert">${error}</pre>`;
  if (!data) return html`<${Waiting} />`;
  const rows = records(data);
  const numeric = data.columns.filter((name) => rows.length > 0 && rows.every((row) => row[name] === null || typeof row[name] === "number"));
  const quote = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  const csv = () => save("text/csv", [data.columns, ...data.rows].map((row) => row.map((value) => quote(Array.isArray(value) ? JSON.stringify(value) : value)).join(",")).join("\n"));
  if (as === "line" && numeric.length > 1) return html`<${Curve} title="" unit=${numeric[0]} lines=${numeric.slice(1).map((name) => ({ label: name, points: rows.map((row) => [row[numeric[0]], row[name]]) }))} />`;
  if (as === "bars" && numeric.length > 0) return html`<${Bars} rows=${rows} value=${numeric.at(-1)} label=${data.columns.find((name) => name !== numeric.at(-1))} />`;
  return html`<p><button onClick=${csv}>save as csv</button></p><${Answer} answer=${{ ...data, sql: null }} run=${number} />`;
}

/** Bars with their numbers beside them. */
function Bars({ rows, value, label }) {
  const largest = Math.max(...rows.map((row) => Math.abs(row[value] || 0)), 1e-12);
  return html`<div class="scroll"><table class="bars"><tbody>${rows.slice(0, 100).map((row, i) => html`<tr key=${i}><th scope="row">${String(row[label] ?? "")}</th>
    <td><svg width="300" height="14" role="img" aria-label=${String(row[value])}><rect x="0" y="2" height="10" width=${(300 * Math.abs(row[value] || 0)) / largest} class=${row[value] < 0 ? "minus" : "plus"} /></svg></td><td class="number">${row[value]}</td></tr>`)}</tbody></table></div>`;
}
