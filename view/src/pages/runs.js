// The list of runs.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../api.js";
import { Problem, Table, Waiting, shown } from "../parts.js";

export function Runs() {
  const { data, error } = useAnswer("runs");
  const [part, setPart] = useState("");
  const [chosen, setChosen] = useState([]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const figures = [...new Set(data.runs.flatMap((run) => Object.keys(run.figures || {})))];
  const rows = data.runs
    .filter((run) => `${run.folder} ${run.name} ${run.state} seed ${run.seed}`.includes(part))
    .map((run) => ({ ...run, ...run.figures, run: run.folder, iteration: run.error ? null : Math.min(run.next, run.iterations), minutes: run.seconds === undefined ? null : run.seconds / 60 }));
  const toggle = (number) => setChosen(chosen.includes(number) ? chosen.filter((other) => other !== number) : [...chosen, number]);
  const cells = {
    "": (_, row) => html`<input type="checkbox" aria-label=${`choose ${row.folder}`} checked=${chosen.includes(row.number)} onChange=${() => toggle(row.number)} />`,
    run: (folder, row) => (row.error ? html`${folder} <span class="problem">${row.error}</span>` : html`<a href=${`#/r/${row.number}`}>${folder}</a>`),
    state: (state) => html`<span class=${`state ${String(state).replace(" ", "-")}`}>${state || "unreadable"}</span>`,
    minutes: (minutes) => shown(minutes === null ? null : Number(minutes.toFixed(1))),
  };
  const experiments = (data.experiments || []).filter(({ runs }) => runs.length > 1);
  const curves = (runs) => `#/r/${runs[0]}/curves?${new URLSearchParams({ runs: runs.join(","), band: "1" })}`;
  const readable = data.runs.filter((run) => !run.error).map((run) => run.number);
  return html`${data.study && html`<p><a href="#/study">The tables of the study</a></p>`}<p><label class="choice">Find <input type="search" value=${part} onInput=${(event) => setPart(event.target.value)} placeholder="part of a name, a state, a seed" /></label>
      ${chosen.length > 1 && html`<a class="button" href=${`#/r/${chosen[0]}/curves?runs=${chosen.join(",")}`}>Curves of these ${chosen.length}</a>`}
      ${chosen.length === 2 && html`<a class="button" href=${`#/r/${chosen[0]}/diff?with=${chosen[1]}`}>First difference</a>`}
      ${chosen.length < 2 && readable.length > 1 && readable.length <= 20 && html`<a class="button" href=${curves(readable)}>Curves of all ${readable.length}</a>`}</p>
    ${experiments.length > 0 && html`<p class="quiet">Several seeds: ${experiments.slice(0, 12).map(({ label, runs }, i) => html`${i > 0 && ", "}<a key=${label} href=${curves(runs)}>${label}</a> (${runs.length})`)}</p>`}
    <${Table} columns=${["", "run", "name", "seed", "state", "iteration", "iterations", ...figures, "minutes"]} rows=${rows} cells=${cells} />`;
}
