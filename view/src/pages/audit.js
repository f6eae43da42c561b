// An audit of a run's credit: its figures, the credit of each turn against what the turn was worth, and the turns where the two differ most.
import { html } from "htm/preact";
import { address, change, episode, useAnswer } from "../api.js";
import { Answer, Choice, Problem, Sql, Table, Waiting, records, shown } from "../parts.js";
import { Scatter } from "../scatter.js";

/** The name of a turn in an address. */
const named = (row) => [row.iteration, row.sample, row.attempt, row.turn, row.task].join(" ");

export function Audit({ number, run, given, tick }) {
  if (run.audits.length === 0) return html`<${Problem} error="This run has no audit: flow audit RUN makes one." />`;
  const name = given.name || (run.audits.includes("audit") ? "audit" : run.audits[0]);
  return html`${run.audits.length > 1 && html`<p><${Choice} label="Audit" value=${name} options=${run.audits.map((one) => [one, one])} onChange=${(one) => change({ name: one, turn: "" })} /></p>`}
    <${Found} key=${name} number=${number} name=${name} chosen=${given.turn} tick=${tick} />`;
}

function Found({ number, name, chosen, tick }) {
  const { data, error } = useAnswer(`runs/${number}/audit`, { name }, tick);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const { figures, credit } = data;
  const point = (row) => ({ x: row.credit, y: row.audited, low: row.audited - 1.96 * row.audited_error, high: row.audited + 1.96 * row.audited_error, name: named(row) });
  // Of many turns a random part is drawn.
  const part = data.points || data.turns;
  const all = new Map([...records(part), ...records(data.turns)].map((row) => [named(row), row]));
  const drawn = records(part).map(point);
  const own = all.get(chosen);
  if (own && !drawn.some((one) => one.name === chosen)) drawn.push(point(own));
  const cells = {
    task: (task, row) => html`<a href=${episode(number, row.iteration, row)}>${task}</a>`,
    disagreement: (value, row) => html`<button class="plain" onClick=${() => { change({ turn: named(row) }); scrollTo({ top: 0 }); }}>${shown(value)}</button>`,
  };
  return html`<${Summary} figures=${figures} credit=${credit} />
    ${drawn.length > 0 && html`<div class="curves"><figure><${Scatter} title="turn by turn" labels=${[credit, "audited worth"]} points=${drawn} chosen=${chosen} onPoint=${(turn) => change({ turn })} />
      <p class="quiet">With 95% intervals. A click chooses the nearest turn.${part.more && ` ${part.rows.length} of ${figures.turns} turns are drawn, at random.`}</p>
      ${own && html`<p class="box">Chosen: <a href=${episode(number, own.iteration, own)}>${own.task}</a>, iteration ${own.iteration}, sample ${own.sample}, turn ${own.turn}: ${credit} ${shown(own.credit)}, audited ${shown(own.audited)} (standard error ${shown(own.audited_error)})</p>`}</figure>
      <figure><${Scatter} title="by size of credit: means" labels=${[credit, "audited worth"]} points=${figures.by_size.map((part, i) => ({ x: part.credit, y: part.audited, low: part.low, high: part.high, name: String(i) }))} />
      <${Table} columns=${["mean_credit", "mean_audited", "low", "high"]} rows=${figures.by_size.map((part) => ({ mean_credit: part.credit, mean_audited: part.audited, low: part.low, high: part.high }))} /></figure></div>`}
    ${Object.keys(figures.refused).length > 0 && html`<h2>Turns that were not restored</h2><${Table} columns=${["reason", "turns"]} rows=${Object.entries(figures.refused).map(([reason, turns]) => ({ reason, turns }))} />`}
    <h2>Turns, by disagreement</h2><p class="quiet prose">The disagreement is the distance between credit and audited worth, each divided by its root mean square over these turns, because their scales differ.
      A turn is decided if its worth differs from the policy's at the level of 5%. The number of a disagreement shows its point above.</p>
    <${Answer} answer=${data.turns} run=${number} cells=${cells} hide=${records(data.turns).some((row) => row.attempt > 0) ? [] : ["attempt"]} />`;
}

/** The figures that `flow audit` prints. */
function Summary({ figures, credit }) {
  const line = (figure, interval, scale, about) => ({ figure, value: interval && scale * interval.value, low: interval && scale * interval.low, high: interval && scale * interval.high, about: interval ? about : "nothing to compare" });
  const rows = [
    line("correlation", figures.correlation, 1, figures.ceiling === null ? "" : `a perfect credit would reach ${figures.ceiling.toFixed(2)} with so many plays`),
    line("same sign, %", figures.same_sign, 100, "of all turns with a credit"),
    line("same sign, decided, %", figures.same_sign_decided, 100, `of the ${figures.decided} turns whose worth surely differs from the policy's`),
    line("slope", figures.slope, 1, "worth more by one unit of credit"),
  ];
  return html`<p><code>${credit}</code> of ${figures.turns} turns of ${figures.tasks} tasks against what they were worth, with 95% intervals over tasks</p>
    <${Table} columns=${["figure", "value", "low", "high", "about"]} rows=${rows} />`;
}

/** The audits of one turn: each tried answer with its worth. */
export function Audited({ rows, number, iteration, row }) {
  return [...new Set(rows.map((one) => one.audit))].map((name) => {
    const tried = rows.filter((one) => one.audit === name);
    const logged = tried.find((one) => one.role === "logged");
    const turn = named({ ...row, iteration });
    const says = logged?.refused ? `the turn was not restored: ${logged.refused}` : `credit ${shown(logged?.credit)}, audited ${shown(logged?.audited)} (standard error ${shown(logged?.audited_error)})`;
    return html`<h4 key=${name}>audit</h4><p><a href=${address(["r", number, "audit"], { name, turn })}>${name}</a>: ${says}</p>
      ${!logged?.refused && html`<${Table} columns=${["role", "answer", "plays", "worth", "worth_error"]} rows=${tried} />`}`;
  });
}
