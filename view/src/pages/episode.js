// The reader: one episode turn by turn, with the prompt as it was read and the answer token by token.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { address, change, useAnswer } from "../api.js";
import { Choice, Problem, Sql, Waiting, records, shown } from "../parts.js";
import { arithmetic } from "./group.js";

/** What tokens can be coloured by: of the token, else of its row. */
const BY = {
  logprob: { name: "log-probability", of: (row, i) => row.logprobs?.[i], least: -4, most: 0 },
  advantage: { name: "advantage", of: (row, i) => row.token_advantages?.[i] ?? row.advantage, signed: true },
  ratio: { name: "ratio", of: (row) => row.ratio, signed: true, middle: 1 },
  gradient: { name: "gradient", of: (row) => row.logit_grad },
  value: { name: "value", of: (row, i) => row.token_values?.[i], signed: true },
};

/** How strong a colour is, from -1 to 1; 0 has none. */
function strength(by, value, largest) {
  if (typeof value !== "number") return 0;
  if (by.least !== undefined) return Math.max(-1, Math.min(0, (value - by.most) / (by.most - by.least)));
  const from = value - (by.middle || 0);
  return largest > 0 ? Math.max(-1, Math.min(1, from / largest)) : 0;
}

const step = (strong) => (strong === 0 ? "" : `${strong < 0 ? "minus" : "plus"}${Math.max(1, Math.ceil(Math.abs(strong) * 4))}`);

export function Episode({ number, run, parts, given }) {
  const [iteration, , task, sample] = parts;
  const table = given.table || "trajectories";
  const { data, error } = useAnswer(`runs/${number}/episode`, { iteration, table, task, sample });
  const [find, setFind] = useState("");
  const rows = data ? records(data) : [];
  const key = (row) => `${row.attempt}-${row.turn}-${row.phase}`;
  useEffect(() => {
    const at = rows.findIndex((row) => String(row.turn) === given.turn && (given.attempt === undefined || String(row.attempt) === given.attempt));
    if (at > 0) document.getElementById(key(rows[at]))?.scrollIntoView();
  }, [data !== null]);
  useEffect(() => {
    const pressed = (event) => {
      if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      const turns = [...document.querySelectorAll(".turn")];
      const at = turns.findLastIndex((turn) => turn.getBoundingClientRect().top < 120);
      const to = { j: at + 1, n: at + 1, k: at - 1, p: at - 1 }[event.key];
      if (to === undefined) return;
      turns[Math.max(0, Math.min(turns.length - 1, to))]?.scrollIntoView();
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  if (rows.length === 0) return html`<p>This iteration has no such episode.</p>`;
  const by = BY[given.by] ? given.by : "logprob";
  const known = Object.entries(BY).filter(([, one]) => rows.some((row) => typeof one.of(row, 0) === "number"));
  const largest = Math.max(0, ...rows.flatMap((row, r) => (data.texts?.[r]?.pieces || [0]).map((_, i) => Math.abs((BY[by].of(row, i) ?? 0) - (BY[by].middle || 0)))));
  const besides = (samples) => address(["r", number, "i", iteration, "e", task, String(Math.max(0, Number(sample) + samples))], { table: given.table, by: given.by });
  const last = rows.findLast((row) => row.phase === "play") || rows.at(-1);
  return html`<h2>${task} <span class="quiet">sample ${sample}, iteration ${iteration}</span></h2>
    <p><a href=${besides(-1)} rel="prev">sample before</a> · <a href=${besides(1)} rel="next">next sample</a> · <a href=${address(["r", number, "i", iteration])}>all of iteration ${iteration}</a>${" "}
      <${Choice} label="Colour tokens by" value=${by} options=${known.map(([id, one]) => [id, one.name])} onChange=${(value) => change({ by: value })} />
      <label class="choice"><input type="checkbox" checked=${given.numbers === "1"} onChange=${(event) => change({ numbers: event.target.checked ? "1" : "" })} /> numbers</label>
      <label class="choice">Find <input type="search" value=${find} onInput=${(event) => setFind(event.target.value)} /></label></p>
    <p>${rows.length} rows; ${last.won ? "won" : "not won"}${typeof last.score === "number" ? `, score ${shown(last.score)}` : ""}${last.truncated ? `, cut: ${last.truncated}` : ""}. <span class="quiet">Keys j and k walk through the turns.</span></p>
    <${Legend} by=${BY[by]} largest=${largest} />
    ${!data.texts && html`<p class="quiet">The vocabulary isn't in the run's folder: prompts can't be read as text.</p>`}
    ${rows.map((row, i) => (!find || JSON.stringify([row.observation, row.action, row.response, data.texts?.[i]]).includes(find)) && html`<${Turn} key=${key(row)} id=${key(row)} row=${row} texts=${data.texts?.[i]} by=${BY[by]} largest=${largest}
      numbers=${given.numbers === "1"} number=${number} iteration=${iteration} run=${run} />`)}
    ${data.more && html`<p class="quiet">The episode has more rows than these ${rows.length}: ask in SQL for the others.</p>`}
    <${Sql} sql=${data.sql} run=${number} />`;
}

const Legend = ({ by, largest }) => {
  if (by.least === undefined && largest === 0) return html`<p class="quiet">All tokens of this episode have the ${by.name} ${by.middle || 0}.</p>`;
  const of = by.least !== undefined ? [[-1, by.least], [-0.5, by.least / 2], [0, 0]] : [[-1, (by.middle || 0) - largest], [0, by.middle || 0], [1, (by.middle || 0) + largest]];
  return html`<p class="legend" aria-label="legend">${of.filter(([strong]) => by.signed || by.least !== undefined || strong >= 0).map(([strong, value]) => html`<span key=${strong} class=${`token ${step(strong)}`}>${shown(Number(value.toPrecision(3)))}</span>`)} <span class="quiet">${by.name}</span></p>`;
};

/** One turn: what was seen, what the model read, what it answered, what came of it. */
function Turn({ id, row, texts, by, largest, numbers, number, iteration, run }) {
  const credit = arithmetic(row);
  const name = row.phase === "play" ? `turn ${row.turn}` : `${row.phase} after turn ${row.turn}`;
  return html`<article class="turn" id=${id}><h3>${row.attempt > 0 && `attempt ${row.attempt}, `}${name}
      <span class="facts">${typeof row.reward === "number" && html`<span>reward ${shown(row.reward)}</span>`}
      ${typeof row.advantage === "number" && html`<span>advantage ${shown(row.advantage)}</span>`}
      ${row.mode && row.mode !== "plain" && html`<span>${row.mode}</span>`}${row.valid === false && html`<span>can't be carried out: ${row.invalid_because}</span>`}${row.done && html`<span>${row.won ? "won" : "over"}</span>`}</span></h3>
    ${row.observation && texts?.rest !== row.observation && html`<h4>seen</h4><pre>${row.observation}</pre>`}
    ${texts && html`<h4>read</h4>${texts.shared && html`<details><summary class="quiet">as before, ${texts.shared.length} characters</summary><pre>${texts.shared}</pre></details>`}<${Long} text=${texts.rest} />`}
    <h4>answered</h4>${texts?.pieces?.length ? html`<pre class="answer">${texts.pieces.map((piece, i) => {
      const value = by.of(row, i);
      const strong = strength(by, value, largest);
      return html`<span key=${i} class=${`token ${step(strong)}`} title=${`${by.name} ${shown(value)}; log-probability ${shown(row.logprobs?.[i])}; token ${row.response_tokens?.[i]}`}>${piece === "" ? "∅" : piece}${numbers && html`<sub>${shown(typeof value === "number" ? Number(value.toPrecision(3)) : value)}</sub>`}</span>`;
    })}</pre>` : html`<pre>${row.response || row.action}</pre>`}
    ${row.action && row.action !== row.response && html`<p>done: <code>${row.action}</code></p>`}
    ${row.outcome && html`<h4>then</h4><pre>${row.outcome}</pre>`}
    ${credit && html`<p class="sum">advantage: ${credit.text}${!credit.agrees && html` <span class="quiet">(logged: ${shown(row.advantage)}; a node after it changed it)</span>`}</p>`}
    <p class="links">${row.group && html`<a href=${address(["r", number, "i", iteration, "g", String(row.group)])}>compared with</a>`}
      ${row.retrieved?.length > 0 && run.tables.some((table) => table.columns.some(([column]) => column === "change")) && html` <span>told entries ${row.retrieved.map((entry) => html`<code key=${entry}>${entry} </code>`)}</span>`}</p>
    <${Uses} number=${number} iteration=${iteration} row=${row} />
    <${More} row=${row} /></article>`;
}

/** A text of which the first part is drawn; the rest by a click, so that a prompt of 100,000 tokens doesn't stop the page. */
function Long({ text }) {
  const [whole, setWhole] = useState(false);
  const LIMIT = 20000;
  if (text.length <= LIMIT || whole) return html`<pre>${text}</pre>`;
  return html`<pre>${text.slice(0, LIMIT)}</pre><button onClick=${() => setWhole(true)}>show the other ${text.length - LIMIT} characters</button>`;
}

/** The updates that had the row, asked when they are opened. */
function Uses({ number, iteration, row }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>updates that had this row</summary>${open && html`<${Used} number=${number} iteration=${iteration} row=${row} />`}</details>`;
}

function Used({ number, iteration, row }) {
  const { data, error } = useAnswer(`runs/${number}/uses`, { iteration, task: row.task, sample: row.sample, attempt: row.attempt, turn: row.turn, phase: row.phase });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  if (data.rows.length === 0) return html`<p>no update had it</p>`;
  return html`<dl>${records(data).map((use, i) => html`<div key=${i}>${Object.entries(use).filter(([, value]) => value !== null).map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${shown(value)}</dd>`)}</div>`)}</dl>`;
}

/** All that was logged of the row. */
function More({ row }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>all columns</summary>${open && html`<dl>${Object.entries(row).filter(([, value]) => value !== null && value !== "").map(([name, value]) => html`<dt key=${name}>${name}</dt><dd><code>${Array.isArray(value) ? JSON.stringify(value) : shown(value)}</code></dd>`)}</dl>`}</details>`;
}
