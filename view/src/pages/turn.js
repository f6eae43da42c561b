// One turn of an episode: what was seen, what the model read, what it answered, what came of it.
import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { address, change, useAnswer } from "../api.js";
import { Problem, Waiting, records, shown, step } from "../parts.js";
import { Audited } from "./audit.js";
import { arithmetic } from "./group.js";

/** How strong a colour is, from -1 to 1; 0 has none. */
export function strength(by, value, largest) {
  if (typeof value !== "number") return 0;
  if (by.least !== undefined) return Math.max(-1, Math.min(0, (value - by.most) / (by.most - by.least)));
  const from = value - (by.middle || 0);
  return largest > 0 ? Math.max(-1, Math.min(1, from / largest)) : 0;
}

/** A turn is drawn when it comes near the window, and stays: an episode of hundreds would stop the page. */
export function Turn(given) {
  const at = useRef(null);
  const [near, setNear] = useState(false);
  useEffect(() => {
    const watch = new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) { setNear(true); watch.disconnect(); } }, { rootMargin: "1200px" });
    watch.observe(at.current);
    return () => watch.disconnect();
  }, []);
  const { row, id } = given;
  const name = row.phase === "play" ? `turn ${row.turn}` : `${row.phase} after turn ${row.turn}`;
  return html`<article class=${`turn ${near ? "" : "far"} ${given.linked ? "linked" : ""}`} id=${id} ref=${at}><h3>${row.attempt > 0 && `attempt ${row.attempt}, `}${name}${near && html`<${Facts} row=${row} /><${Link} row=${row} />`}</h3>
    ${near && html`<${Body} ...${given} />`}</article>`;
}

/** Copies the address of a turn. A secret in it stays out: who may look has it already. */
function Link({ row }) {
  const [text, say] = useState("copy link");
  const copy = async () => {
    change({ turn: row.turn, attempt: row.attempt, phase: row.phase === "play" ? "" : row.phase });
    const said = await navigator.clipboard?.writeText(location.href.split(/[?#]/)[0] + location.hash).then(() => "copied", () => null);
    say(said || "the link is in the address bar");
  };
  return html`<button class="plain link" onClick=${copy}>${text}</button>`;
}

const Facts = ({ row }) => html`<span class="facts">${typeof row.reward === "number" && html`<span>reward ${shown(row.reward)}</span>`}
  ${typeof row.advantage === "number" && html`<span>advantage ${shown(row.advantage)}</span>`}
  ${row.mode && row.mode !== "plain" && html`<span>${row.mode}</span>`}${row.valid === false && html`<span>can't be carried out: ${row.invalid_because}</span>`}
  ${typeof row.used === "string" && row.used !== "yes" && html`<span>not trained on: ${row.used}</span>`}${row.done && html`<span>${row.won ? "won" : "over"}</span>`}</span>`;

function Body({ row, texts, by, largest, numbers, number, iteration, run, table, audited }) {
  // A prompt that is little more than what was seen has it already.
  const read = texts?.rest.includes(row.observation) && row.observation.length > texts.rest.length / 2;
  return html`${row.observation && !read && html`<h4>seen</h4><${Long} text=${row.observation} />`}
    ${texts && html`<h4>read</h4><${Shared} row=${row} texts=${texts} number=${number} iteration=${iteration} table=${table} /><${Long} text=${texts.rest} />`}
    <${Told} row=${row} texts=${texts} number=${number} iteration=${iteration} run=${run} />
    <h4>answered</h4><${Answered} row=${row} pieces=${texts?.pieces} by=${by} largest=${largest} numbers=${numbers} />
    ${row.action && row.action !== row.response && html`<p>done: <code>${row.action}</code></p>`}
    ${row.outcome && html`<h4>then</h4><pre>${row.outcome}</pre>`}
    <${Credit} row=${row} number=${number} iteration=${iteration} />
    <${Audited} rows=${audited} number=${number} iteration=${iteration} row=${row} />
    <${Uses} number=${number} iteration=${iteration} row=${row} />
    <${More} row=${row} />`;
}

/** The answer, coloured token by token, or as one where the number is the row's. */
function Answered({ row, pieces, by, largest, numbers }) {
  if (!pieces?.length) return html`<${Long} text=${row.response || row.action || ""} />`;
  const small = (value) => numbers && html`<sub>${shown(typeof value === "number" ? Number(value.toPrecision(3)) : value)}</sub>`;
  const colour = (value) => step(strength(by, value, largest));
  const token = (piece, i) => {
    const value = by.whole ? undefined : by.of(row, i);
    const own = by.whole ? "" : `${by.name} ${shown(value)}; `;
    return html`<span key=${i} class=${`token ${colour(value)}`} title=${`${own}log-probability ${shown(row.logprobs?.[i])}; token ${row.response_tokens?.[i]}`}>${piece === "" ? "∅" : piece}${!by.whole && small(value)}</span>`;
  };
  const value = by.of(row);
  return html`<pre class="answer">${by.whole ? html`<span class=${`whole ${colour(value)}`} title=${`${by.name} ${shown(value)}`}>${pieces.map(token)}</span>${small(value)}` : pieces.map(token)}</pre>`;
}

/** The sum behind the advantage, in numbers and in words. */
function Credit({ row, number, iteration }) {
  const credit = arithmetic(row);
  const group = row.group && html`<a href=${address(["r", number, "i", iteration, "g", String(row.group)])}>compared with ${row.group_size ? `the ${row.group_size} rows of its group` : "its group"}</a>`;
  if (!credit) return group ? html`<p>${group}</p>` : null;
  const place = row.return > row.baseline ? "above" : row.return < row.baseline ? "below" : "equal to";
  return html`<p class="sum">advantage: ${credit.text}${!credit.agrees && html` <span class="quiet">(logged: ${shown(row.advantage)}; a node after it changed it)</span>`}</p>
    <p>Its return is ${place} the baseline${group && html`: ${group}`}.</p>`;
}

/** What the prompt shares with the row before: long ones are asked for when they are opened. */
function Shared({ row, texts, number, iteration, table }) {
  const [open, setOpen] = useState(false);
  if (texts.shared_tokens === 0) return null;
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary class="quiet">as before, ${texts.shared_tokens} tokens</summary>
    ${open && (texts.shared !== null ? html`<${Long} text=${texts.shared} />` : html`<${Whole} row=${row} number=${number} iteration=${iteration} table=${table} />`)}</details>`;
}

function Whole({ row, number, iteration, table }) {
  const { data, error } = useAnswer(`runs/${number}/prompt`, { iteration, table, task: row.task, sample: row.sample, attempt: row.attempt, turn: row.turn, phase: row.phase });
  if (error) return html`<${Problem} error=${error} />`;
  return data ? html`<p class="quiet">The whole prompt:</p><${Long} text=${data.text || ""} />` : html`<${Waiting} />`;
}

/** What a memory added to the prompt, with the entries that it came from. */
function Told({ row, texts, number, iteration, run }) {
  if (!(row.retrieved?.length > 0)) return null;
  const memory = Object.entries(run.roles).find(([, role]) => role === "remembers")?.[0];
  const entry = (id) => (memory ? html`<a href=${address(["r", number, "memory", memory], { i: iteration, entry: id })}>${id}</a>` : html`<code>${id}</code>`);
  return html`<h4>of that from the memory</h4><p>entries ${row.retrieved.map((id, i) => html`${i > 0 && ", "}<span key=${id}>${entry(id)}</span>`)}</p>${texts?.told && html`<pre class="told">${texts.told}</pre>`}`;
}

/** How many characters are drawn at once. */
const LIMIT = 20000;

/** A text of which the first part is drawn; the rest by a click, in parts of which the browser lays out those that are seen. */
export function Long({ text }) {
  const [whole, setWhole] = useState(false);
  if (text.length <= LIMIT) return html`<pre>${text}</pre>`;
  const parts = [];
  for (let at = 0; at < text.length;) {
    // A part ends with a line where it can.
    const line = text.lastIndexOf("\n", at + LIMIT / 10);
    const end = line > at ? line + 1 : at + LIMIT / 10;
    parts.push(text.slice(at, end));
    at = end;
  }
  if (!whole) return html`<pre>${text.slice(0, LIMIT)}</pre><button onClick=${() => setWhole(true)}>show the other ${text.length - LIMIT} characters</button>`;
  return html`<div class="parts">${parts.map((part, i) => html`<pre key=${i}>${part}</pre>`)}</div>`;
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
