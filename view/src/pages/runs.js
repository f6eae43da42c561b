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
  return html`<p><label class="choice">Find <input type="search" value=${part} onInput=${(event) => setPart(event.target.value)} placeholder="part of a name, a state, a seed" /></label>
      ${chosen.length > 1 && html`<a class="button" href=${`#/r/${chosen[0]}/curves?runs=${chosen.join(",")}`}>Curves of these ${chosen.length}</a>`}
      ${chosen.length === 2 && html`<a class="button" href=${`#/r/${chosen[0]}/diff?with=${chosen[1]}`}>First difference</a>`}</p>
    <${Table} columns=${["", "run", "name", "seed", "state", "iteration", "iterations", ...figures, "minutes"]} rows=${rows} cells=${cells} />`;
}
