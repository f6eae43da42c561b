// The reader: one episode turn by turn, with the prompt as it was read and the answer token by token.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { address, change, useAnswer } from "../api.js";
import { Choice, Problem, Sql, Waiting, records, shown, step } from "../parts.js";
import { Turn, strength } from "./turn.js";

/** What an answer can be coloured by: a number of each token, or, with `whole`, one of the row. `figures` are the numbers that an update keeps by `token_figures`. */
const BY = {
  logprob: { name: "log-probability", of: (row, i) => row.logprobs?.[i], least: -4, most: 0 },
  advantage: { name: "advantage", of: (row, i) => row.token_advantages?.[i] ?? row.advantage, signed: true },
  ratio: { name: "ratio", of: (row, i) => row.token_ratios?.[i], signed: true, middle: 1, figures: "ratio" },
  gradient: { name: "gradient", of: (row, i) => row.token_grads?.[i], figures: "logit_grad" },
  entropy: { name: "entropy", of: (row, i) => row.token_entropies?.[i], figures: "ratio" },
  value: { name: "value", of: (row, i) => row.token_values?.[i], signed: true },
  row_ratio: { name: "mean ratio of the row", of: (row) => row.ratio, signed: true, middle: 1, whole: true },
  row_gradient: { name: "gradient of the row", of: (row) => row.logit_grad, whole: true },
  divergence: { name: "divergence of the row", of: (row) => row.row_kl, signed: true, whole: true },
  mask: { name: "mask of the row: 1 where no update used it", of: (row) => (typeof row.used === "string" ? Number(row.used !== "yes") : undefined), whole: true },
};

const UNKEPT = "this row's update kept no figures a token: `token_figures: true` of `gpu-update` keeps them";

/** How many rows an answer has at most. */
const PAGE = 500;

export function Episode({ number, run, parts, given }) {
  const [iteration, , task, sample] = parts;
  const table = given.table || "trajectories";
  const from = Number(given.from || 0);
  const { data, error } = useAnswer(`runs/${number}/episode`, { iteration, table, task, sample, from: from || undefined });
  const [find, setFind] = useState("");
  const rows = data ? records(data) : [];
  const audited = data?.audited ? records(data.audited) : [];
  const at = rows.findIndex((row) => String(row.turn) === given.turn && [undefined, String(row.attempt)].includes(given.attempt) && [undefined, row.phase].includes(given.phase));
  const key = (row) => `${row.attempt}-${row.turn}-${row.phase}`;
  useEffect(() => {
    if (at > 0) document.getElementById(key(rows[at]))?.scrollIntoView();
  }, [data !== null, given.turn, given.attempt, given.phase]);
  useEffect(() => {
    const pressed = (event) => {
      if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      const turns = [...document.querySelectorAll(".turn")];
      const at = turns.findLastIndex((turn) => turn.getBoundingClientRect().top < 120);
      if (event.key === "n" || event.key === "p") { document.querySelector(event.key === "n" ? "a[rel=next]" : "a[rel=prev]")?.click(); return; }
      const to = { j: at + 1, k: at - 1 }[event.key];
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
  const known = ([, one]) => rows.some((row) => typeof one.of(row, 0) === "number");
  const unkept = ([, one]) => one.figures && rows.some((row) => typeof row[one.figures] === "number");
  const options = Object.entries(BY).filter((one) => known(one) || unkept(one)).map((one) => [one[0], one[1].name, known(one) ? "" : UNKEPT]);
  const largest = Math.max(0, ...rows.flatMap((row, r) => (data.texts?.[r]?.pieces || [0]).map((_, i) => Math.abs((BY[by].of(row, i) ?? 0) - (BY[by].middle || 0)))));
  const besides = (samples) => address(["r", number, "i", iteration, "e", task, String(Math.max(0, Number(sample) + samples))], { table: given.table, by: given.by });
  const last = rows.findLast((row) => row.phase === "play") || rows.at(-1);
  const { branch_of: origin, turn } = rows[0];
  const branch = from === 0 && ![undefined, null, rows[0].sample].includes(origin);
  return html`<h2>${task} <span class="quiet">sample ${sample}, iteration ${iteration}</span></h2>
    <p><a href=${besides(-1)} rel="prev">sample before</a> · <a href=${besides(1)} rel="next">next sample</a> · <a href=${address(["r", number, "i", iteration])}>all of iteration ${iteration}</a>${" "}
      <${Choice} label="Colour tokens by" value=${by} options=${options} onChange=${(value) => change({ by: value })} />
      <label class="choice"><input type="checkbox" checked=${given.numbers === "1"} onChange=${(event) => change({ numbers: event.target.checked ? "1" : "" })} /> numbers</label>
      <label class="choice">Find <input type="search" value=${find} onInput=${(event) => setFind(event.target.value)} /></label></p>
    <p>${rows.length} rows; ${last.won ? "won" : "not won"}${typeof last.score === "number" ? `, score ${shown(last.score)}` : ""}${last.truncated ? `, cut: ${last.truncated}` : ""}. <span class="quiet">Keys: j and k walk through the turns, n and p through the samples.</span></p>
    ${branch && html`<p>A branch of <a href=${address(["r", number, "i", iteration, "e", task, String(origin)], { table: given.table, turn })}>sample ${origin}</a>, which has the turns before turn ${turn}.</p>`}
    ${known([by, BY[by]]) ? html`<${Legend} by=${BY[by]} largest=${largest} />` : html`<p class="problem">No ${BY[by].name}: ${unkept([by, BY[by]]) ? UNKEPT : "no row has one"}.</p>`}
    ${!data.texts && html`<p class="quiet">The vocabulary isn't in the run's folder: prompts can't be read as text.</p>`}
    ${rows.map((row, i) => (!find || JSON.stringify([row.observation, row.action, row.response, data.texts?.[i]]).includes(find)) && html`<${Turn} key=${key(row)} table=${table} id=${key(row)} linked=${i === at} row=${row} texts=${data.texts?.[i]} by=${BY[by]} largest=${largest}
      numbers=${given.numbers === "1"} number=${number} iteration=${iteration} run=${run} audited=${row.phase === "play" ? audited.filter((one) => one.attempt === row.attempt && one.turn === row.turn) : []} />`)}
    ${(from > 0 || data.more) && html`<p>Rows ${from + 1} to ${from + rows.length}${from > 0 && html` · <button onClick=${() => change({ from: Math.max(0, from - PAGE) || "" })}>before</button>`}${data.more && html` · <button onClick=${() => change({ from: from + PAGE })}>after</button>`}</p>`}
    <${Sql} sql=${data.sql} run=${number} />`;
}

const Legend = ({ by, largest }) => {
  if (by.least === undefined && largest === 0) return html`<p class="quiet">All ${by.whole ? "rows" : "tokens"} of this episode have the ${by.name} ${by.middle || 0}.</p>`;
  const of = by.least !== undefined ? [[-1, by.least], [-0.5, by.least / 2], [0, 0]] : [[-1, (by.middle || 0) - largest], [0, by.middle || 0], [1, (by.middle || 0) + largest]];
  return html`<p class="legend" aria-label="legend">${of.filter(([strong]) => by.signed || by.least !== undefined || strong >= 0).map(([strong, value]) => html`<span key=${strong} class=${`token ${step(strong)}`}>${shown(Number(value.toPrecision(3)))}</span>`)} <span class="quiet">${by.name}</span></p>`;
};
