// A group: the rows that were compared, with the sum behind each advantage written out.
import { html } from "htm/preact";
import { address, episode, useAnswer } from "../api.js";
import { Problem, Short, Sql, Table, Waiting, records, shown } from "../parts.js";

const digits = (value) => shown(typeof value === "number" ? Number(value.toPrecision(6)) : value);

/** The sum behind an advantage: return less baseline over scale; and whether it gives what was logged. */
export function arithmetic(row) {
  const { return: earned, baseline, scale, advantage } = row;
  if ([earned, baseline].some((value) => typeof value !== "number")) return null;
  const divided = typeof scale === "number" && scale !== 1;
  const value = (earned - baseline) / (divided ? scale : 1);
  const text = divided ? `(${digits(earned)} − ${digits(baseline)}) ÷ ${digits(scale)} = ${digits(value)}` : `${digits(earned)} − ${digits(baseline)} = ${digits(value)}`;
  const agrees = typeof advantage !== "number" || Math.abs(value - advantage) <= 1e-4 * Math.max(1, Math.abs(advantage));
  return { text, agrees };
}

export function Group({ number, parts, given }) {
  const [iteration, , id] = parts;
  const by = given.by || "group";
  const { data, error } = useAnswer(`runs/${number}/group`, { iteration, by, id });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const rows = records(data);
  const episodes = new Set(rows.map((row) => `${row.task} ${row.sample} ${row.attempt}`)).size;
  const left = rows.filter((row) => (row.used ?? row.advantage_used ?? "yes") !== "yes");
  const cells = {
    sample: (sample, row) => html`<a href=${episode(number, iteration, row)}>${sample}</a>`,
    credit: (_, row) => {
      const sum = arithmetic(row);
      if (!sum) return "";
      return html`<span class="sum">${sum.text}</span>${!sum.agrees && html`<br /><span class="quiet">logged: ${digits(row.advantage)}; a node after it changed it (a sum of several, a penalty, or a rule for equal returns)</span>`}`;
    },
  };
  const tasks = [...new Set(rows.map((row) => row.task))];
  const told = data.columns.filter((name) => name !== "response" || rows.some((row) => row.response !== row.action));
  const columns = [...(tasks.length > 1 ? ["task"] : []), "sample", "attempt", "turn", ...told.filter((name) => ["observation", "action", "response", "won", "reward", "return"].includes(name)), "credit", ...data.columns.filter((name) => ["advantage", "used", "advantage_used"].includes(name))];
  return html`<h2>Group <${Short} id=${id} /> of iteration ${iteration} <span class="quiet">${tasks.length === 1 ? tasks[0] : `${tasks.length} tasks`}</span></h2>
    <p>${rows.length} rows of ${episodes} episodes were compared with one another${by === "group" ? "" : ` (${by})`}.${left.length > 0 && html` ${left.length} of them were left out: ${[...new Set(left.map((row) => row.used ?? row.advantage_used))].join(", ")}.`}</p>
    <${Aligned} rows=${rows} number=${number} iteration=${iteration} />
    <h3>Row by row</h3><${Table} columns=${columns} rows=${rows} cells=${cells} more=${data.more} /><${Sql} sql=${data.sql} run=${number} />`;
}

/** The episodes of a group side by side, turn under turn: what all did alike is quiet, and from where one parts from the others it isn't. */
function Aligned({ rows, number, iteration }) {
  const tasks = new Set(rows.map((row) => row.task));
  const played = rows.filter((row) => row.phase === "play");
  const episodes = [...new Map(played.map((row) => [`${row.sample}.${row.attempt}`, row])).values()];
  if (tasks.size !== 1 || episodes.length < 2 || episodes.length > 32) return null;
  const turns = [...new Set(played.map((row) => row.turn))].sort((a, b) => a - b);
  const at = (episode, turn) => played.find((row) => row.sample === episode.sample && row.attempt === episode.attempt && row.turn === turn);
  const path = (episode, turn) => turns.filter((other) => other <= turn).map((other) => at(episode, other)?.action).join("\n");
  const first = (episode, turn) => !episodes.slice(0, episodes.indexOf(episode)).some((other) => path(other, turn) === path(episode, turn));
  const last = (episode) => played.findLast((row) => row.sample === episode.sample && row.attempt === episode.attempt);
  return html`<h3>Side by side</h3><p class="quiet">What an episode did like one to its left is grey; what it did alone is not.</p>
    <div class="scroll"><table class="aligned"><thead><tr><th>turn</th>${episodes.map((episode) => html`<th key=${`${episode.sample}.${episode.attempt}`}><a href=${address(["r", number, "i", iteration, "e", episode.task, String(episode.sample)], {})}>sample ${episode.sample}${episode.attempt ? `, attempt ${episode.attempt}` : ""}</a></th>`)}</tr></thead>
    <tbody>${turns.map((turn) => html`<tr key=${turn}><th scope="row">${turn}</th>${episodes.map((episode) => { const row = at(episode, turn); return html`<td key=${`${episode.sample}.${episode.attempt}`} class=${row && !first(episode, turn) ? "quiet" : ""}>${row ? row.action || row.response : ""}</td>`; })}</tr>`)}
    ${[["return", (row) => digits(row.return)], ["advantage", (row) => digits(row.advantage)], ["won", (row) => shown(row.won)]].map(([name, of]) => html`<tr key=${name}><th scope="row">${name}</th>${episodes.map((episode) => html`<td key=${`${episode.sample}.${episode.attempt}`}><strong>${of(name === "return" ? at(episode, turns.find((turn) => at(episode, turn))) : last(episode))}</strong></td>`)}</tr>`)}</tbody></table></div>`;
}
