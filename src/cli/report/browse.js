// The trajectory browser: one episode, turn by turn.
const ATTEMPT = 0, TURN = 1, PHASE = 2, SEEN = 3, SAID = 4, DONE = 5, VALID = 6, REWARD = 7, OVER = 8, WON = 9, SCORE = 10, ADVANTAGE = 11, READ = 12;
function board(text) {
  const pre = make("pre", {});
  // Only the rows of a board are coloured; other texts are left as they are.
  const kinds = { "#": "wall", "?": "wall", P: "me", S: "me", X: "box", O: "goal", "√": "good", "✓": "good", "*": "box" };
  text.split("\n").forEach((line, i) => {
    if (i) pre.append("\n");
    const row = /^(Row \d+: )(.*)$/.exec(line);
    if (!row) return pre.append(line);
    pre.append(make("span", { class: "wall" }, row[1]));
    for (const c of row[2]) pre.append(kinds[c] ? make("span", { class: kinds[c] }, c) : c);
  });
  return pre;
}
function browser(data) {
  const { texts, trips } = data.browser;
  const selects = ["run", "node", "iteration", "episode"].map(name => [name, make("select", { "aria-label": name })]);
  const [run, node, iteration, episode] = selects.map(s => s[1]);
  const turns = make("div", { class: "turns" }), previous = make("button", { type: "button" }, "Previous"), next = make("button", { type: "button" }, "Next");
  const summary = make("p", { class: "about", role: "status" });
  const distinct = list => [...new Set(list)];
  const fill = (select, options) => {
    const kept = select.value;
    select.replaceChildren(...options.map(([value, label]) => make("option", { value }, label)));
    if (options.some(([value]) => String(value) === kept)) select.value = kept;
  };
  const last = trip => trip.turns[trip.turns.length - 1];
  const won = trip => trip.turns.some(t => t[WON]);
  const total = trip => trip.turns.reduce((sum, t) => sum + (t[REWARD] || 0), 0);
  const fits = () => trips.filter(t => String(t.run) === run.value && t.node === node.value && String(t.iteration) === iteration.value);
  function choose(changed) {
    if (changed < 1) fill(node, distinct(trips.filter(t => String(t.run) === run.value).map(t => t.node)).map(n => [n, n]));
    if (changed < 2) fill(iteration, distinct(trips.filter(t => String(t.run) === run.value && t.node === node.value).map(t => t.iteration)).map(n => [n, n]));
    if (changed < 3) fill(episode, fits().map((t, i) => [i, `${t.task}, sample ${t.sample}: ${won(t) ? "won" : "not won"}, ${told(total(t))}`]));
    show();
  }
  function show() {
    const all = fits(), trip = all[+episode.value];
    previous.disabled = +episode.value <= 0;
    next.disabled = +episode.value >= all.length - 1;
    turns.replaceChildren();
    if (!trip) return;
    const attempts = distinct(trip.turns.map(t => t[ATTEMPT])), most = Math.max(...trip.turns.map(t => Math.abs(t[ADVANTAGE] || 0)));
    const plays = trip.turns.filter(t => texts[t[PHASE]] !== "reflect").length;
    summary.textContent = `${trip.task}, sample ${trip.sample}, iteration ${trip.iteration}: ${plays} turns${attempts.length > 1 ? ` in ${attempts.length} attempts` : ""}, rewards add up to ${told(total(trip))}, ${won(trip) ? "won" : "not won"}.`;
    if (trip.instruction !== null) turns.append(make("p", { class: "about" }, "The task: ", texts[trip.instruction]));
    let attempt = null;
    for (const t of trip.turns) {
      if (attempts.length > 1 && t[ATTEMPT] !== attempt) turns.append(make("h3", { class: "attempt" }, `Attempt ${t[ATTEMPT]}`));
      attempt = t[ATTEMPT];
      const reflect = texts[t[PHASE]] === "reflect", said = texts[t[SAID]], done = texts[t[DONE]];
      const facts = make("dl", {}), fact = (name, value, kind) => facts.append(make("dt", {}, name), make("dd", { class: kind }, value));
      if (t[READ] !== null && texts[t[READ]] !== texts[t[SEEN]]) fact("read", make("details", {}, make("summary", {}, "the prompt"), make("pre", {}, texts[t[READ]])));
      if (said !== done || reflect) fact("said", said, "said");
      if (!reflect) fact("did", t[VALID] ? done : `${done || "nothing"} (not valid)`);
      fact("earned", told(t[REWARD]));
      if (t[ADVANTAGE] !== null) {
        const wide = most ? 50 * Math.abs(t[ADVANTAGE]) / most : 0;
        const lean = make("span", { class: "lean", "aria-hidden": "true" }, make("i", { class: t[ADVANTAGE] < 0 ? "down" : "up", style: `width:${wide}%` }));
        facts.append(make("dt", {}, "advantage"), make("dd", {}, told(t[ADVANTAGE]), lean));
      }
      const name = reflect ? "Reflection" : `Turn ${t[TURN]}`, end = t[WON] ? "won" : t[OVER] && !reflect ? "over" : `score ${told(t[SCORE])}`;
      turns.append(make("article", { class: `turn${reflect ? " reflect" : ""}${t[WON] ? " won" : ""}` }, make("h4", {}, make("span", {}, name), make("span", { class: t[WON] ? "good" : null }, end)), board(texts[t[SEEN]]), facts));
    }
  }
  fill(run, distinct(trips.map(t => t.run)).map(n => [n, data.runs[n].folder]));
  selects.forEach(([, select], i) => select.addEventListener("change", () => choose(i)));
  const step = by => { episode.value = String(+episode.value + by); show(); };
  previous.addEventListener("click", () => step(-1));
  next.addEventListener("click", () => step(1));
  choose(0);
  const bar = make("div", { class: "choose" }, ...selects.map(([name, select]) => make("label", {}, name, select)), previous, next);
  const left = data.browser.left_out ? make("p", { class: "about" }, `${data.browser.left_out} more episodes were left out to keep the page small.`) : null;
  return [make("p", { class: "about" }, "A few episodes of the first and of the last logged iteration: what was seen, said, done and earned, and how much better than its group it was. ", make("code", {}, "flow show"), " has all others."), bar, summary, turns, left];
}
