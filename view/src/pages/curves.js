// Curves of one run or of several, laid over one another.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { address, ask, change, useAnswer } from "../api.js";
import { Curve, smooth } from "../curve.js";
import { Choice, Problem, Sql } from "../parts.js";

export function Curves({ number, run, given, tick }) {
  const all = Object.entries(run.figures).flatMap(([node, names]) => Object.keys(names).map((name) => `${node} ${name}`));
  const figures = given.f ? given.f.split(",") : all.filter((figure) => /(success|return|loss|entropy)$/.test(figure));
  const numbers = given.runs ? given.runs.split(",") : [number];
  const known = useAnswer("runs").data;
  const listed = known?.runs || [];
  const toggle = (figure) => change({ f: (figures.includes(figure) ? figures.filter((other) => other !== figure) : [...figures, figure]).join(",") });
  const [part, setPart] = useState("");
  const label = (one) => listed.find((other) => String(other.number) === one)?.folder.split("/").at(-1) || `run ${one}`;
  return html`<section class="side"><aside class="box"><label class="choice">Find a figure <input type="search" value=${part} onInput=${(event) => setPart(event.target.value)} /></label>
      <ul class="list">${all.filter((figure) => figure.includes(part)).map((figure) => html`<li key=${figure}><label><input type="checkbox" checked=${figures.includes(figure)} onChange=${() => toggle(figure)} /> ${figure.split(" ")[1]} <span class="quiet">${figure.split(" ")[0]}</span></label></li>`)}</ul>
      <h3>Runs</h3><ul class="list">${listed.filter((other) => !other.error).map((other) => html`<li key=${other.number}><label><input type="checkbox" checked=${numbers.includes(String(other.number))}
        onChange=${() => { const own = String(other.number); const next = numbers.includes(own) ? numbers.filter((one) => one !== own) : [...numbers, own]; change({ runs: next.length ? next.join(",") : number }); }} /> ${other.folder.split("/").at(-1)}</label></li>`)}</ul></aside>
    <div><p><${Choice} label="Axis" value=${given.axis || "iteration"} options=${[["iteration", "iteration"], ["tokens", "tokens"], ["minutes", "minutes"]]} onChange=${(axis) => change({ axis })} />
      <${Choice} label="Smoothing" value=${given.smooth || "0"} options=${[["0", "none"], ["3", "3"], ["10", "10"], ["30", "30"]]} onChange=${(value) => change({ smooth: value })} />
      <label class="choice"><input type="checkbox" checked=${given.log === "1"} onChange=${(event) => change({ log: event.target.checked ? "1" : "" })} /> logarithm</label>
      <label class="choice"><input type="checkbox" checked=${given.band === "1"} onChange=${(event) => change({ band: event.target.checked ? "1" : "" })} /> mean of the seeds</label></p>
    ${given.axis === "tokens" && html`<p class="quiet">Distinct tokens of the episodes that were played in training.</p>`}
    ${given.band === "1" && html`<p class="quiet">Runs of one pipeline with several seeds are one line, where all of them have a value; from three seeds on with a 95% interval (Student's t over the seeds). Two seeds are drawn thin beside their mean.</p>`}
    <div class="curves">${figures.map((figure) => html`<${Overlay} key=${figure} figure=${figure} numbers=${numbers} label=${label} given=${given} tick=${tick} number=${number} experiments=${known?.experiments || []} />`)}</div></div></section>`;
}

/** What is asked for a figure: a line a run, and where means are wanted one of each experiment with several of these runs. */
function questions(numbers, experiments, means) {
  const single = numbers.map((one) => ({ runs: [one] }));
  if (!means) return single;
  const together = experiments.map((experiment) => ({ label: experiment.label, runs: experiment.runs.map(String).filter((one) => numbers.includes(one)) })).filter(({ runs }) => runs.length > 1);
  const alone = single.filter(({ runs: [one] }) => !together.some(({ runs }) => runs.includes(one)));
  const thin = together.filter(({ runs }) => runs.length === 2).flatMap(({ runs }) => runs.map((one) => ({ runs: [one], thin: true })));
  return [...together, ...alone, ...thin];
}

/** One figure of several runs. */
function Overlay({ figure, numbers, label, given, tick, number, experiments }) {
  const [node, name] = figure.split(" ");
  const [state, set] = useState({});
  const wanted = questions(numbers, experiments, given.band === "1");
  useEffect(() => {
    let over = false;
    const answer = (one) => (one.runs.length > 1 ? ask(`runs/${one.runs[0]}/band`, { runs: one.runs.join(","), node, name }) : ask(`runs/${one.runs[0]}/curve`, { node, name }));
    Promise.all(wanted.map(async (one) => ({ ...one, data: await answer(one) })))
      .then((all) => over || set({ all }), (error) => over || set({ error: error.message }));
    return () => { over = true; };
  }, [figure, JSON.stringify(wanted), tick]);
  if (state.error) return html`<${Problem} error=${state.error} />`;
  if (!state.all) return html`<div class="curve"></div>`;
  const width = Number(given.smooth || 0);
  const x = { minutes: (point) => point[2] / 60, tokens: (point) => point[3] }[given.axis] || ((point) => point[0]);
  const lines = state.all.filter(({ data }) => data.points.length).map(({ runs, label: mean, thin, data }) => {
    const smoothed = (at) => smooth(data.points.map((point) => point[at]), width);
    const [values, low, high] = [smoothed(1), smoothed(4), smoothed(5)];
    const band = runs.length > 2 && data.points.map((point, i) => [x(point), low[i], high[i]]);
    return { label: runs.length > 1 ? `${mean}: mean of ${runs.length}` : label(runs[0]), thin, points: data.points.map((point, i) => [x(point), values[i]]), ...(band && { band }) };
  });
  const byIteration = !given.axis || given.axis === "iteration";
  return html`<figure><${Curve} title=${`${name} (${node})`} unit=${given.axis || "iteration"} lines=${lines} logarithm=${given.log === "1"}
      onPoint=${(at) => byIteration && (location.hash = address(["r", numbers[0], "i", String(at)]))} />
    <${Sql} sql=${state.all[0]?.data.sql} run=${number} /></figure>`;
}
