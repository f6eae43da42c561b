// The pages of runs: what the address names is drawn.
import { html, render } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { ask, cost, useAddress, useAnswer } from "./api.js";
import { Problem, Waiting } from "./parts.js";
import { Theme } from "./theme.js";
import { Runs } from "./pages/runs.js";
import { Overview } from "./pages/overview.js";
import { Curves } from "./pages/curves.js";
import { Iteration } from "./pages/iteration.js";
import { Episode } from "./pages/episode.js";
import { Group } from "./pages/group.js";
import { Memory } from "./pages/memory.js";
import { Clusters } from "./pages/clusters.js";
import { Audit } from "./pages/audit.js";
import { Panel } from "./pages/panel.js";
import { Failures } from "./pages/failures.js";
import { Question } from "./pages/question.js";
import { Compare } from "./pages/compare.js";
import { Study } from "./pages/study.js";
import "./style.css";

/** How often a run that goes on is asked how it stands: seldom enough that the answers take a hundredth of the time, between these bounds in ms. */
const SHARE = 0.01;
const [SHORTEST, LONGEST] = [3000, 20000];

/** The state of a run, asked again while it goes on; `tick` counts its commits. */
function useRunState(number) {
  const [state, set] = useState({ tick: 0, last: null, now: null });
  useEffect(() => {
    let timer = null;
    let over = false;
    let looks = 0;
    let begun = 0;
    const look = async () => {
      // By what the look before cost, with all that the page then asked anew; at first that is the page's own opening.
      const pause = looks > 1 ? Math.max(SHORTEST, Math.min(LONGEST, (cost.spent - begun) / SHARE)) : SHORTEST;
      looks += 1;
      begun = cost.spent;
      try {
        const { state: now, last } = await ask(`runs/${number}/state`);
        if (over) return;
        // The first look is of what the page has just asked for.
        const same = (before) => before.now === null || (before.last === last && before.now.state === now.state);
        set((before) => ({ now, last, tick: same(before) ? before.tick : before.tick + 1 }));
        if (now.state === "running") timer = setTimeout(look, pause);
      } catch (error) {
        if (!over) set({ tick: 0, last: null, now: null, error: error.message });
      }
    };
    look();
    return () => { over = true; clearTimeout(timer); };
  }, [number]);
  return state;
}

const PAGES = { "": Overview, curves: Curves, i: Iteration, memory: Memory, clusters: Clusters, audit: Audit, panel: Panel, failures: Failures, sql: Question, diff: Compare };

/** One run: its name, the ways into it, and the page that the address names. */
function Run({ number, parts, given }) {
  const live = useRunState(number);
  const { data, error } = useAnswer(`runs/${number}/run`, {}, live.tick);
  if (error || live.error) return html`<${Problem} error=${error || live.error} />`;
  if (!data) return html`<${Waiting} />`;
  const [page = "", ...rest] = parts;
  let Page = PAGES[page];
  if (page === "i" && rest[1] === "e") Page = Episode;
  if (page === "i" && rest[1] === "g") Page = Group;
  const roles = Object.entries(data.roles);
  const withRole = (role) => roles.filter(([, own]) => own === role).map(([id]) => id);
  const tabs = [["", "Overview"], ["curves", "Curves"]];
  if (data.iterations.last !== null) tabs.push([`i/${Math.min(data.iterations.last, data.info.iterations - 1)}`, "Iterations"]);
  withRole("measures").forEach((id) => tabs.push([`panel/${id}`, `Panel: ${id}`]));
  withRole("remembers").forEach((id) => tabs.push([`memory/${id}`, id === "memory" ? "Memory" : `Memory: ${id}`]));
  data.clusters.forEach((id) => tabs.push([`clusters/${id}`, id === "clusters" ? "Clusters" : `Clusters: ${id}`]));
  if (data.audits.length > 0) tabs.push(["audit", "Audit"]);
  tabs.push(["failures", "Failures"], ["diff", "Compare"], ["sql", "SQL"]);
  const here = [page, ...(page === "i" ? [] : rest.slice(0, 1))].filter(Boolean).join("/");
  const current = (path) => (path.startsWith("i/") ? page === "i" : path === here);
  return html`<header><p class="where"><${Theme} /><a href="#/">runs</a> / <strong>${data.info.name}</strong> <span class="quiet">seed ${data.info.seed}</span>${" "}
      <span class=${`state ${data.state.state.replace(" ", "-")}`}>${data.state.state}, ${Math.min(data.state.next, data.state.iterations)} of ${data.state.iterations}</span></p>
    <nav aria-label="pages of the run">${tabs.map(([path, name]) => html`<a key=${path} href=${`#/r/${number}/${path}`} aria-current=${current(path) ? "page" : "false"}>${name}</a>`)}</nav></header>
    <main>${Page ? html`<${Page} number=${number} run=${data} parts=${rest} given=${given} tick=${live.tick} now=${live.now || data.state} />` : html`<${Problem} error="there is no such page" />`}</main>`;
}

function App() {
  const { parts, with: given } = useAddress();
  useEffect(() => { document.title = ["flow", ...parts.slice(2)].join(" · "); }, [parts.join("/")]);
  if (parts[0] === "r" && parts[1] !== undefined) return html`<${Run} key=${parts[1]} number=${parts[1]} parts=${parts.slice(2)} given=${given} />`;
  if (parts[0] === "study") return html`<header><p class="where"><${Theme} /><a href="#/">runs</a> / <strong>study</strong></p></header><main><${Study} given=${given} /></main>`;
  return html`<header><p class="where"><${Theme} /><strong>flow</strong> runs</p></header><main><${Runs} /></main>`;
}

render(html`<${App} />`, document.getElementById("page"));
