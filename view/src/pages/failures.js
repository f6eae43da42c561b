// Episodes that failed, by cause.
import { html } from "htm/preact";
import { useAnswer } from "../api.js";
import { Answer, Problem, Waiting } from "../parts.js";

export function Failures({ number, tick, run }) {
  const { data, error } = useAnswer(`runs/${number}/failures`, {}, tick);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  if (data.causes.rows.length === 0) return html`<p>No episode failed in ${run.iterations.count} iterations.</p>`;
  return html`<h2>By cause</h2><${Answer} answer=${data.causes} run=${number} /><h2>The newest</h2><${Answer} answer=${data.newest} run=${number} />`;
}
