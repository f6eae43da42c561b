// Questions in SQL, with a table, a line or bars of what comes out.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { change, useAnswer } from "../api.js";
import { Curve } from "../curve.js";
import { Answer, Choice, Problem, Waiting, records, shown } from "../parts.js";

const FIRST = "SELECT iteration, value AS success FROM metrics WHERE name = 'success' ORDER BY iteration";

export function Question({ number, run, given }) {
  const [text, setText] = useState(given.q || FIRST);
  const ask = () => change({ q: text });
  const questions = useAnswer(`runs/${number}/questions`).data || [];
  const headings = [...new Set(questions.map((one) => one.heading))];
  return html`<section class="side"><aside class="box"><h3>To begin from</h3>${headings.map((heading, i) => html`<details key=${heading} open=${i === 0}><summary>${heading}</summary>
        <ul class="list">${questions.filter((one) => one.heading === heading).map(({ question, sql }) => html`<li key=${question}><button class="plain" onClick=${() => { setText(sql); change({ q: sql }); }}>${question}</button></li>`)}</ul></details>`)}
      <h3>Tables</h3>${run.tables.map((table) => html`<details key=${table.name}><summary>${table.name}</summary><ul class="list">${table.columns.map(([name, kind]) => html`<li key=${name}><code>${name}</code> <span class="quiet">${kind}</span></li>`)}</ul></details>`)}</aside>
    <div><label>A question in SQL<textarea rows="6" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && ask()}></textarea></label>
      <p><button onClick=${ask}>Ask</button> <span class="quiet">or Ctrl+Enter</span>
        <${Choice} label="as" value=${given.as || "table"} options=${[["table", "a table"], ["line", "a line"], ["bars", "bars"], ["histogram", "a histogram"]]} onChange=${(as) => change({ as })} /></p>
      ${given.q && html`<${Found} key=${given.q} number=${number} sql=${given.q} as=${given.as || "table"} />`}</div></section>`;
}

function Found({ number, sql, as }) {
  const { data, error } = useAnswer(`runs/${number}/sql`, { sql });
  if (error) return html`<pre class="problem" role="alert">${error}</pre>`;
  if (!data) return html`<${Waiting} />`;
  const rows = records(data);
  const numeric = data.columns.filter((name) => rows.length > 0 && rows.every((row) => row[name] === null || typeof row[name] === "number"));
  if (as === "line" && numeric.length > 1) return html`<${Curve} title="" unit=${numeric[0]} lines=${numeric.slice(1).map((name) => ({ label: name, points: rows.map((row) => [row[numeric[0]], row[name]]) }))} />`;
  if (as === "bars" && numeric.length > 0) return html`<${Bars} rows=${rows} value=${numeric.at(-1)} label=${data.columns.find((name) => name !== numeric.at(-1))} />`;
  if (as === "histogram" && numeric.length > 0) return html`<${Histogram} values=${rows.map((row) => row[numeric.at(-1)]).filter((value) => value !== null)} name=${numeric.at(-1)} more=${data.more} />`;
  const file = (format) => `api/runs/${number}/file?${new URLSearchParams({ sql, format })}`;
  return html`<p>All rows: <a href=${file("csv")} download="answer.csv">csv</a> · <a href=${file("parquet")} download="answer.parquet">Parquet</a></p><${Answer} answer=${{ ...data, sql: null }} run=${number} />`;
}

/** Bars with their numbers beside them. */
function Bars({ rows, value, label }) {
  const largest = Math.max(...rows.map((row) => Math.abs(row[value] || 0)), 1e-12);
  return html`<div class="scroll"><table class="bars"><tbody>${rows.slice(0, 100).map((row, i) => html`<tr key=${i}><th scope="row">${String(row[label] ?? "")}</th>
    <td><svg width="300" height="14" role="img" aria-label=${String(row[value])}><rect x="0" y="2" height="10" width=${(300 * Math.abs(row[value] || 0)) / largest} class=${row[value] < 0 ? "minus" : "plus"} /></svg></td><td class="number">${row[value]}</td></tr>`)}</tbody></table></div>`;
}

/** How many values lie in each of twenty equal parts of their range. */
function Histogram({ values, name, more }) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const parts = high > low ? 20 : 1;
  const counts = Array(parts).fill(0);
  for (const value of values) counts[Math.min(parts - 1, Math.floor(((value - low) / (high - low || 1)) * parts))] += 1;
  const rows = counts.map((count, i) => ({ from: `${shown(low + ((high - low) * i) / parts)} to ${shown(low + ((high - low) * (i + 1)) / parts)}`, count }));
  return html`<h3>${name} <span class="quiet">${values.length} values${more ? ", the first of more" : ""}</span></h3><${Bars} rows=${rows} value="count" label="from" />`;
}
