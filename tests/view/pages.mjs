// The pages of `flow view` in a real Chromium, on real runs: what they show equals what SQL says. `make test-view` runs it. PICTURES=FOLDER keeps
// pictures; ASSETS=src/cli/view/assets takes the files of the pages from there and not from the program, for who works on them.
import { strict as assert } from "node:assert";
import { execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { createRequire } from "node:module";

const ROOT = new URL("../..", import.meta.url).pathname;
const { chromium } = createRequire(join(ROOT, "view/package.json"))("playwright-core");
const FLOW = join(ROOT, "target/release/flow");
const PICTURES = process.env.PICTURES;
const folder = mkdtempSync(join(tmpdir(), "flow-view-"));
const runs = join(folder, "runs");

const flow = (...given) => execFileSync(FLOW, given, { cwd: ROOT, encoding: "utf8", env: { ...process.env, OMP_NUM_THREADS: "1" }, stdio: ["ignore", "pipe", "pipe"] });
const sql = (run, text) => JSON.parse(flow("query", join(runs, run), text, "--format", "json"));

/** A small run that remembers, is measured and is credited in groups. */
const SMALL = `
flow: small
about: "<img src=x onerror='window.hacked = 1'> & <b>text</b>"
iterations: 4
models: { actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 } }
agents:
  player: { model: actor, max_turns: 3, context: [{ memory: memory, by: key, of: task, order: newest, most: 1 }] }
  writer: { model: actor, prompt: "{{ last }}", answer: [], max_tokens: 6 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 3, mines: 2, batch: 3 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update }, memory: { after: memory } }, with: { agent: player, samples: 4 } }
  reflect: { op: reflect, inputs: rollout, with: { agent: writer, on: always } }
  memory: { op: memory-update, inputs: reflect, with: { key: task, points: none } }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3, token_figures: true } }
  evaluate: { op: evaluate, inputs: { weights: { after: update }, memory: { after: memory } }, with: { agent: player, panel: PANEL, every: 2 } }
log: [rollout, reflect, memory, group, advantage, update, evaluate]
`;

/** A small run that can be audited: it has no memory, and keeps its weights. */
const AUDITED = `
flow: audited
iterations: 3
seed: 3
keep: { every: 1 }
models: { actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 } }
nodes:
  tasks: { op: tasks, with: { env: doors, doors: 3, rooms: 2, batch: 6 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 5 }, samples: 8 } }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 3.0e-3 } }
log: [rollout, advantage, update]
`;

/** A small run with clusters of observations, and a memory whose entries are in clusters. */
const CLUSTERED = `
flow: clustered
iterations: 4
seed: 5
models: { actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 } }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 4, variations: 6 } }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update }, memory: { after: memory }, clusters: { after: clusters } }
    with: { agent: { model: actor, max_turns: 3, context: [{ memory: memory, clusters: clusters, most: 2 }] }, samples: 3 }
  clusters: { op: cluster, inputs: rollout, with: { at_least: 0.95 } }
  memory: { op: memory-update, inputs: clusters, with: { entries: turns, per: cluster, capacity: 2, evict: lowest } }
  group: { op: group, inputs: clusters, with: { by: [task, cluster] } }
  advantage: { op: advantage, inputs: group, with: { of: step_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, clusters, memory, group, advantage, update]
`;

let server;
let browser;
let page;
let base;
const numbers = {};

before(async () => {
  mkdirSync(runs);
  const panel = join(folder, "panel.json");
  writeFileSync(panel, readFileSync(join(ROOT, "datasets/minesweeper-size3-mines2-a9b2ddbb58d1.json")));
  const pipeline = join(folder, "small.yaml");
  writeFileSync(pipeline, SMALL.replace("PANEL", panel));
  flow("run", pipeline, "--out", join(runs, "one"));
  flow("run", pipeline, "--set", "seed=2", "--out", join(runs, "two"));
  flow("run", pipeline, "--set", "seed=3", "--out", join(runs, "three"));
  for (const [name, yaml] of Object.entries({ audited: AUDITED, clustered: CLUSTERED })) {
    writeFileSync(join(folder, `${name}.yaml`), yaml);
    flow("run", join(folder, `${name}.yaml`), "--out", join(runs, name));
  }
  // One that was killed before its first iteration was committed.
  const begun = spawn(FLOW, ["run", pipeline, "--set", "nodes.rollout.with.samples=2000", "--out", join(runs, "empty")], { cwd: ROOT, stdio: "ignore", env: { ...process.env, OMP_NUM_THREADS: "1" } });
  while (!existsSync(join(runs, "empty", "manifest.json"))) await new Promise((over) => setTimeout(over, 20));
  begun.kill("SIGKILL");
  cpSync(join(runs, "one"), join(runs, "damaged"), { recursive: true });
  writeFileSync(join(runs, "damaged", "manifest.json"), "{ this is no manifest");
  server = spawn(FLOW, ["view", "--folder", runs], { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
  base = await new Promise((found, failed) => {
    server.stdout.on("data", (text) => { const at = /http:\/\/\S+/.exec(text); if (at) found(at[0]); });
    server.on("exit", () => failed(new Error("flow view ended")));
  });
  for (const run of (await (await fetch(`${base}api/runs`)).json()).runs) numbers[run.folder.split("/").at(-1)] = run.number;
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
  page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  if (process.env.ASSETS) for (const name of ["app.js", "app.css"]) await page.route(`**/${name}`, (route) => route.fulfill({ path: join(process.env.ASSETS, name) }));
  page.on("pageerror", (error) => { throw error; });
});

after(async () => {
  await browser?.close();
  server?.kill();
  rmSync(folder, { recursive: true, force: true });
});

/** Opens an address of the pages and waits until something that matches is there. */
async function open(hash, wanted, at = base) {
  await page.goto("about:blank");
  await page.goto(at + hash);
  await page.locator(wanted).first().waitFor();
}

/** The cells of the table with this heading, row by row. */
const cells = async (heading) => {
  const table = page.locator("table", { has: page.locator("th", { hasText: new RegExp(`^${heading}( [↑↓])?$`) }) }).first();
  const names = (await table.locator("thead th").allInnerTexts()).map((name) => name.trim().replace(/ [↑↓]$/, ""));
  const rows = await table.locator("tbody tr").all();
  return Promise.all(rows.map(async (row) => Object.fromEntries((await row.locator("td").allInnerTexts()).map((text, i) => [names[i], text.trim()]))));
};

/** The texts, markers and lines of the page that differ from their ground by less than 4.5 to 1. */
function contrasts() {
  const parts = (colour) => { const [r, g, b, a = 1] = (colour.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number); return [r, g, b, a]; };
  const over = ([r, g, b, a], ground) => [r, g, b].map((value, i) => value * a + ground[i] * (1 - a));
  const channel = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const contrast = (a, b) => { const [low, high] = [light(a), light(b)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05); };
  const ground = (element) => (element ? over(parts(getComputedStyle(element).backgroundColor), ground(element.parentElement)) : over(parts(getComputedStyle(document.body).backgroundColor), [255, 255, 255]));
  const found = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.getClientRects().length || element.disabled || element.closest("option")) continue;
    const style = getComputedStyle(element);
    // A text of the graph is on the box of its node.
    const box = element.closest(".graph .node")?.querySelector("rect");
    const below = box ? parts(getComputedStyle(box).fill) : ground(element);
    const value = contrast(over(parts(element.closest("svg") ? style.fill : style.color), below), below);
    if (value < 4.5) found.add(`${element.className || element.tagName} ${element.textContent.slice(0, 20)}: ${value.toFixed(2)}`);
  }
  const paper = ground(document.body);
  const hex = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  for (const line of getComputedStyle(document.documentElement).getPropertyValue("--lines").trim().split(" ")) if (contrast(hex(line), paper) < 4.5) found.add(`line ${line}: ${contrast(hex(line), paper).toFixed(2)}`);
  for (const edge of document.querySelectorAll(".graph .edge, .graph marker path")) {
    const { stroke, fill } = getComputedStyle(edge);
    const value = contrast(parts(stroke === "none" ? fill : stroke), paper);
    if (value < 4.5) found.add(`edge: ${value.toFixed(2)}`);
  }
  return [...found];
}

/** A picture of the page, and one of it in the dark. */
async function picture(name) {
  if (!PICTURES) return;
  for (const [colorScheme, end] of [["dark", "-dark"], ["light", ""]]) {
    await page.emulateMedia({ colorScheme });
    await new Promise((drawn) => setTimeout(drawn, 300));
    await page.screenshot({ path: join(PICTURES, `${name}${end}.png`) });
  }
}
/** Numbers are shown with five digits. */
const near = (shown, value) => assert.ok(Math.abs(Number(shown) - value) <= 1e-4 * Math.max(1, Math.abs(value)), `${shown} is not ${value}`);

describe("flow view", () => {
  it("lists the runs, the damaged one with its reason", async () => {
    await open("#/", "table a");
    const rows = await cells("run");
    assert.equal(rows.length, 7);
    const one = rows.find((row) => row.run.endsWith("one"));
    assert.deepEqual([one.name, one.state, one.iteration, one.iterations], ["small", "finished", "4", "4"]);
    near(one.success, sql("one", "SELECT value FROM metrics WHERE node = 'rollout' AND name = 'success' ORDER BY iteration DESC LIMIT 1")[0].value);
    assert.match(rows.find((row) => row.run.includes("damaged")).run, /manifest/);
    await picture("runs");
  });

  it("draws the graph, and a node says its settings", async () => {
    await open(`#/r/${numbers.one}`, ".graph .node");
    assert.deepEqual((await page.locator(".graph .node .name").allTextContents()).sort(), ["advantage", "evaluate", "group", "memory", "reflect", "rollout", "tasks", "update"]);
    await page.locator(".graph .node", { hasText: "advantage" }).click();
    await page.locator("aside.box pre", { hasText: "of: episode_return" }).waitFor();
    assert.match(page.url(), /node=advantage/);
    await picture("overview");
  });

  it("says first what takes most of the time", async () => {
    await open(`#/r/${numbers.one}`, ".bottleneck");
    const { bottleneck } = await (await fetch(`${base}api/runs/${numbers.one}/run`)).json();
    assert.equal(await page.locator(".bottleneck").innerText(), bottleneck.replaceAll("`", ""));
    assert.match(bottleneck, /^Too short to name a bottleneck/);
  });

  it("is light or dark, as the system is or as the reader chose", async () => {
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const [light, dark] = ["rgb(255, 255, 255)", "rgb(22, 25, 29)"];
    await open(`#/r/${numbers.one}`, ".curve canvas");
    assert.equal(await paper(), light);
    const stroke = () => page.locator(".u-series .u-marker").nth(1).evaluate((marker) => getComputedStyle(marker).borderTopColor);
    const drawn = await stroke();
    await page.getByLabel("light or dark").selectOption("dark");
    assert.equal(await paper(), dark);
    await page.waitForFunction((before) => getComputedStyle(document.querySelectorAll(".u-series .u-marker")[1]).borderTopColor !== before, drawn);
    await page.reload();
    await page.locator(".graph .node").first().waitFor();
    assert.equal(await paper(), dark, "the choice is remembered");
    await page.getByLabel("light or dark").selectOption("");
    assert.equal(await paper(), light);
    await page.emulateMedia({ colorScheme: "dark" });
    assert.equal(await paper(), dark);
    await page.getByLabel("light or dark").selectOption("light");
    assert.equal(await paper(), light);
    await page.getByLabel("light or dark").selectOption("");
    await page.emulateMedia({ colorScheme: "light" });
  });

  it("has texts and lines that can be read in both schemes", async () => {
    const { task, sample } = sql("one", "SELECT task, sample FROM rollout WHERE iteration = 3 ORDER BY ALL LIMIT 1")[0];
    const episode = `#/r/${numbers.one}/i/3/e/${encodeURIComponent(task)}/${sample}?numbers=1&by=`;
    const pages = [["#/", "table a"], [`#/r/${numbers.one}?node=advantage`, ".curve canvas"], [`${episode}advantage`, ".turn .token"], [`${episode}logprob`, ".turn .token"],
      [`#/r/${numbers.one}/i/3?view=credit`, "table .token"], [`#/r/${numbers.one}/memory/memory`, "table button.plain"], [`#/r/${numbers.one}/curves?runs=${numbers.one},${numbers.two}`, "canvas"]];
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const [hash, wanted] of pages) {
        await open(hash, wanted);
        const low = await page.evaluate(contrasts);
        assert.deepEqual(low, [], `${colorScheme} ${hash}`);
      }
    }
    await page.emulateMedia({ colorScheme: "light" });
  });

  it("opens a link at its turn, and copies one", async () => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const { task, sample } = sql("one", "SELECT task, sample FROM rollout WHERE iteration = 3 AND turn = 2 ORDER BY ALL LIMIT 1")[0];
    await open(`#/r/${numbers.one}/i/3/e/${encodeURIComponent(task)}/${sample}`, ".turn");
    const last = page.locator(".turn", { has: page.locator("h3", { hasText: /^turn 2/ }) });
    await last.getByRole("button", { name: "copy link" }).click();
    await last.getByRole("button", { name: "copied" }).waitFor();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(link, page.url());
    await page.goto("about:blank");
    await page.goto(link);
    await page.locator(".turn.linked h3", { hasText: "turn 2" }).waitFor();
    const { top, bottom } = await last.evaluate((turn) => turn.getBoundingClientRect().toJSON());
    assert.ok(top < 860 && bottom > 0, `the turn is in the window: ${top} to ${bottom}`);
    assert.equal(await page.locator(".turn.linked").count(), 1);
  });

  it("shows the turns of an iteration by other estimators", async () => {
    await open(`#/r/${numbers.one}/i/1`, "table a");
    await page.getByLabel("Show").selectOption("credit");
    await page.locator("table .token").first().waitFor();
    const rows = await cells("gigpo");
    const asked = sql("one", "SELECT task, sample, turn, advantage FROM trajectories WHERE iteration = 1 AND phase = 'play' ORDER BY task, sample, attempt, turn, phase");
    assert.equal(rows.length, Math.min(100, asked.length));
    rows.forEach((row, i) => {
      assert.deepEqual([row.task, row.sample, row.turn], [asked[i].task, String(asked[i].sample), String(asked[i].turn)]);
      for (const name of ["logged", "grpo"]) assert.ok(Math.abs(Number(row[name]) - asked[i].advantage) < 1e-2 * Math.max(1, Math.abs(asked[i].advantage)), `${name} ${row[name]} is not ${asked[i].advantage}`);
    });
    // The largest of a column has the strongest colour, whichever way it was rounded.
    for (const column of [6, 7, 8, 9]) assert.ok(await page.locator(`td:nth-child(${column}) .minus4, td:nth-child(${column}) .plus4`).count() > 0, `column ${column}`);
    await picture("credit");
  });

  it("shows the rollouts of another trainer, and keeps no run", async () => {
    const passing = join(folder, "passing");
    mkdirSync(passing);
    const shown = spawn(FLOW, ["view", join(ROOT, "tests/data/import/traces.jsonl")], { cwd: ROOT, stdio: ["ignore", "pipe", "ignore"], env: { ...process.env, TMPDIR: passing } });
    try {
      let said = "";
      const at = await new Promise((found) => shown.stdout.on("data", (text) => { said += text; const one = /http:\/\/\S+/.exec(said); if (one) found(one[0]); }));
      assert.match(said, /6 episodes of 2 tasks, 11 turns, 1 failed/);
      assert.equal(readdirSync(passing).length, 1);
      await open("#/r/0", ".bottleneck", at);
      await picture("imported");
      await open("#/r/0/i/0?view=credit", "table .token", at);
      assert.ok((await page.locator("main").innerText()).includes("The file has no advantages of its own"));
      const rows = await cells("rtmc");
      assert.equal(rows.length, 11);
      assert.ok(rows.every((row) => row.grpo !== "" && row.gigpo !== ""));
      await page.locator("table a").first().click();
      await page.locator(".turn").first().waitFor();
    } finally {
      const over = new Promise((ended) => shown.on("exit", ended));
      shown.kill("SIGTERM");
      await over;
    }
    assert.deepEqual(readdirSync(passing), []);
  });

  it("leaves hostile text as text", async () => {
    await open(`#/r/${numbers.one}`, ".graph .node");
    assert.ok((await page.locator("main").innerText()).includes("<img src=x onerror="));
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    const response = await page.request.get(base);
    assert.match(response.headers()["content-security-policy"], /default-src 'none'/);
  });

  it("shows episodes as SQL counts them, and links to the reader", async () => {
    await open(`#/r/${numbers.one}/i/2`, "table a");
    const rows = await cells("task");
    const asked = sql("one", "SELECT task, sample, count(*) AS turns, sum(reward) AS earned FROM trajectories WHERE iteration = 2 GROUP BY ALL ORDER BY ALL");
    assert.equal(rows.length, asked.length);
    asked.forEach((row, i) => {
      assert.deepEqual([rows[i].task, rows[i].sample, rows[i].turns], [row.task, String(row.sample), String(row.turns)]);
      near(rows[i].earned, row.earned);
    });
    await page.locator("table a").first().click();
    await page.locator(".turn").first().waitFor();
    await page.goBack();
    await page.locator("table a").first().waitFor();
  });

  it("writes out the sum behind each advantage", async () => {
    const { group } = sql("one", "SELECT \"group\"::VARCHAR AS \"group\" FROM trajectories WHERE iteration = 1 AND \"group\" IS NOT NULL LIMIT 1")[0];
    await open(`#/r/${numbers.one}/i/1/g/${group}`, "table.aligned");
    const rows = await cells("credit");
    const asked = sql("one", `SELECT sample, turn, "return", baseline, scale, advantage FROM trajectories WHERE iteration = 1 AND "group" = ${group} ORDER BY task, sample, attempt, turn`);
    assert.equal(rows.length, asked.length);
    asked.forEach((row, i) => {
      const [, earned, baseline, scale, advantage] = /^\(?(\S+) − ([^\s)]+)\)?(?: ÷ (\S+))? = (\S+)/.exec(rows[i].credit);
      near(earned, row.return);
      near(baseline, row.baseline);
      near(scale, row.scale);
      assert.ok(Math.abs(Number(advantage) - row.advantage) < 1e-3, `${advantage} is not ${row.advantage}`);
    });
    await picture("group");
  });

  it("reads an episode token by token", async () => {
    const { task, sample } = sql("one", "SELECT task, sample FROM rollout WHERE iteration = 3 ORDER BY ALL LIMIT 1")[0];
    await open(`#/r/${numbers.one}/i/3/e/${encodeURIComponent(task)}/${sample}?numbers=1`, ".turn");
    const turns = sql("one", `SELECT turn, phase, response, len(response_tokens) AS tokens, text(prompt_tokens) AS prompt FROM trajectories WHERE iteration = 3 AND task = '${task}' AND sample = ${sample} ORDER BY attempt, turn, phase DESC`);
    assert.equal(await page.locator(".turn").count(), turns.length);
    for (const [i, turn] of turns.entries()) {
      const article = page.locator(".turn").nth(i);
      assert.equal(await article.locator(".answer .token").count(), turn.tokens);
      const pieces = await article.locator(".answer .token").evaluateAll((tokens) => tokens.map((token) => token.firstChild.textContent).join(""));
      // Half a character is drawn as such in each of its tokens.
      const whole = (text) => text.replaceAll(/[∅\ufffd]/g, "").trim();
      assert.equal(whole(pieces), whole(turn.response));
      const read = await article.locator("pre:not(.answer)").allTextContents();
      assert.ok(read.join("").includes(turn.prompt.slice(-40)), `${turn.prompt} is not in ${read}`);
    }
    await page.keyboard.press("j");
    await page.locator(".turn summary", { hasText: "updates" }).first().click();
    await page.locator(".turn dt", { hasText: "version" }).first().waitFor();
    await picture("episode");
    const drawn = sql("one", `SELECT turn, phase, token_entropies FROM trajectories WHERE iteration = 3 AND task = '${task}' AND sample = ${sample} AND len(token_entropies) > 0 ORDER BY attempt, turn, phase DESC LIMIT 1`)[0];
    await page.getByLabel("Colour tokens by").selectOption("entropy");
    const at = turns.findIndex((turn) => turn.turn === drawn.turn && turn.phase === drawn.phase);
    const titles = await page.locator(".turn").nth(at).locator(".answer .token").evaluateAll((tokens) => tokens.map((token) => Number(/^entropy ([^;]+);/.exec(token.title)[1])));
    drawn.token_entropies.forEach((entropy, i) => near(titles[i], entropy));
  });

  it("draws a figure of a row as the row's, and offers none of its tokens where the update kept none", async () => {
    const row = sql("audited", "SELECT iteration, task, sample, logit_grad FROM trajectories WHERE logit_grad > 0 ORDER BY ALL LIMIT 1")[0];
    const at = (by) => `#/r/${numbers.audited}/i/${row.iteration}/e/${encodeURIComponent(row.task)}/${row.sample}?numbers=1&by=${by}`;
    await open(at("gradient"), ".turn");
    assert.match(await page.locator("p.problem").innerText(), /No gradient: this row's update kept no figures a token: `token_figures: true`/);
    assert.equal(await page.locator(".answer .token[class*=plus]").count(), 0);
    for (const name of ["ratio", "gradient", "entropy"]) assert.equal(await page.locator(`option[value=${name}]`).isDisabled(), true, name);
    assert.equal(await page.locator("option[value=logprob]").isDisabled(), false);
    await open(at("row_gradient"), ".answer .whole");
    assert.equal(await page.locator(".turn .answer").first().locator("sub").count(), 1);
    assert.equal(await page.locator(".answer .token[class*=plus]").count(), 0);
    await open(`#/r/${numbers.one}/i/3`, "h2, table");
  });

  it("shows what moved the weights, a memory as of an iteration, and a panel", async () => {
    await open(`#/r/${numbers.one}/i/1?view=updates`, "h2");
    const largest = sql("one", "SELECT task, sample, turn FROM provenance WHERE iteration = 1 ORDER BY logit_grad DESC NULLS LAST, task, sample, attempt, turn, phase LIMIT 1")[0];
    await page.locator("table a").first().waitFor();
    const table = page.locator("table", { has: page.locator("th", { hasText: "logit grad" }) });
    assert.deepEqual((await table.locator("tbody tr").first().locator("td").allInnerTexts()).slice(2, 4), [largest.task, String(largest.sample)]);
    await open(`#/r/${numbers.one}/memory/memory?i=1`, "table button.plain");
    const entries = sql("one", "SELECT count(*) AS n FROM (SELECT id FROM memory WHERE iteration <= 1 GROUP BY id HAVING sum(change) > 0)")[0].n;
    assert.equal((await cells("since")).length, Math.min(entries, 500));
    await picture("memory");
    await open(`#/r/${numbers.one}/panel/evaluate`, "table a >> visible=true");
    const last = sql("one", "SELECT max(iteration) AS i FROM evaluate")[0].i;
    const won = sql("one", `SELECT task, avg(won::INT) FILTER (done) AS won FROM evaluate WHERE iteration = ${last} GROUP BY task ORDER BY task`);
    const shown = (await cells("episodes")).sort((a, b) => (a.task < b.task ? -1 : 1));
    assert.deepEqual(shown.map((row) => row.task), won.map((row) => row.task));
  });

  it("answers questions in SQL, and says what is wrong with one", async () => {
    const question = "SELECT node, count(*) AS n FROM metrics GROUP BY node ORDER BY node";
    await open(`#/r/${numbers.one}/sql?${new URLSearchParams({ q: question })}`, "table td");
    const asked = sql("one", question);
    assert.deepEqual((await cells("node")).map((row) => [row.node, row.n]), asked.map((row) => [row.node, String(row.n)]));
    await open(`#/r/${numbers.one}/sql?${new URLSearchParams({ q: "SELECT rewrad FROM rollout" })}`, ".problem");
    assert.match(await page.locator("pre.problem").innerText(), /did you mean `reward`/);
    const saved = await page.request.get(`${base}api/runs/${numbers.one}/file?${new URLSearchParams({ sql: "SELECT * FROM metrics", format: "csv" })}`);
    assert.equal((await saved.text()).trim().split("\n").length - 1, sql("one", "SELECT count(*) AS n FROM metrics")[0].n);
    await open(`#/r/${numbers.one}/sql?${new URLSearchParams({ as: "histogram", q: "SELECT reward FROM rollout" })}`, ".bars");
    await open(`#/r/${numbers.one}/sql?${new URLSearchParams({ q: "COPY rollout TO '/tmp/x'" })}`, ".problem");
  });

  it("says where two runs part", async () => {
    await open(`#/r/${numbers.one}/diff?with=${numbers.two}`, ".tree");
    assert.match(await page.locator(".tree").first().innerText(), /seed/);
  });

  it("serves an empty run, and says what a damaged one lacks", async () => {
    await open(`#/r/${numbers.empty}`, ".graph .node");
    await open(`#/r/${numbers.damaged}`, ".problem");
    assert.match(await page.locator(".problem").first().innerText(), /manifest/);
  });

  it("refuses other sites", async () => {
    const port = new URL(base).port;
    const asked = (headers) => page.request.get(`${base}api/runs`, { headers });
    assert.equal((await asked({ host: `evil.example:${port}` })).status(), 403);
    assert.equal((await asked({ origin: "http://evil.example" })).status(), 403);
    assert.equal((await asked({})).status(), 200);
  });

  it("shows an audit that was made while it served: its figures, its turns, its answers", async () => {
    const [run, at] = [join(runs, "audited"), `#/r/${numbers.audited}`];
    await open(at, ".graph .node");
    assert.equal(await page.locator("nav a", { hasText: "Audit" }).count(), 0);
    await open(`${at}/audit`, ".problem");
    assert.match(await page.locator(".problem").innerText(), /no audit: flow audit/);
    assert.match((await (await fetch(`${base}api/runs/${numbers.audited}/audit?name=audit`)).json()).error, /has no audit: `flow audit RUN` makes one/);
    const audit = () => JSON.parse(flow("audit", run, "--turns", "40", "--plays", "8", "--answers", "all", "--format", "json"));
    audit();
    await open(at, ".graph .node");
    await page.locator("nav a", { hasText: "Audit" }).click();
    await page.locator("canvas").first().waitFor();

    // The same as `flow audit` prints, and as SQL says.
    const figures = audit();
    const logged = (columns) => sql("audited", `SELECT ${columns} FROM audit WHERE role = 'logged'`);
    const asked = logged("corr(credit, audited) AS correlation, regr_slope(audited, credit) AS slope, count(*) AS turns, count(DISTINCT task) AS tasks, count(*) FILTER (abs(audited) > 1.96 * audited_error) AS decided, avg((credit * audited > 0)::INT) FILTER (credit * audited <> 0) AS same_sign, avg((credit * audited > 0)::INT) FILTER (credit * audited <> 0 AND abs(audited) > 1.96 * audited_error) AS same_sign_decided")[0];
    const summary = await cells("figure");
    const lines = { correlation: ["correlation", 1], "same sign, %": ["same_sign", 100], "same sign, decided, %": ["same_sign_decided", 100], slope: ["slope", 1] };
    assert.deepEqual(summary.map((row) => row.figure), Object.keys(lines));
    for (const row of summary) {
      const [name, scale] = lines[row.figure];
      near(row.value, scale * asked[name]);
      ["value", "low", "high"].forEach((part) => near(row[part], scale * figures[name][part]));
    }
    assert.ok((await page.locator("main").innerText()).includes(`advantage of ${asked.turns} turns of ${asked.tasks} tasks`));
    assert.ok(summary[2].about.includes(`${asked.decided} turns`));
    const byCredit = sql("audited", "SELECT task, credit, audited, audited_error FROM audit WHERE role = 'logged' ORDER BY ALL").sort((a, b) => a.credit - b.credit);
    const parts = await cells("mean credit");
    const mean = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0) / rows.length;
    assert.equal(parts.length, 5);
    parts.forEach((part, i) => {
      const rows = byCredit.slice(i * 8, i * 8 + 8);
      near(part["mean credit"], mean(rows, "credit"));
      near(part["mean audited"], mean(rows, "audited"));
      [part.low, part.high].forEach((bound, end) => near(bound, figures.by_size[i][["low", "high"][end]]));
    });

    // Turns by disagreement, one of which is chosen in the table and another one in the plot.
    const rms = (name) => Math.sqrt(mean(byCredit.map((row) => ({ square: row[name] ** 2 })), "square"));
    const [ofCredit, ofAudited] = [rms("credit"), rms("audited")];
    const turns = await cells("disagreement");
    const rows = logged("iteration, task, sample, turn, credit, audited, audited_error, answer").map((row) => ({ ...row, by: Math.abs(row.credit / ofCredit - row.audited / ofAudited) })).sort((a, b) => b.by - a.by);
    assert.equal(turns.length, rows.length);
    turns.forEach((turn, i) => near(turn.disagreement, rows[i].by));
    for (const turn of turns) {
      const row = rows.find((one) => [one.iteration, one.task, one.sample, one.turn].join(" ") === [turn.iteration, turn.task, turn.sample, turn.turn].join(" "));
      assert.deepEqual([turn.answer, turn.decided], [row.answer, Math.abs(row.audited) > 1.96 * row.audited_error ? "yes" : "no"]);
      ["credit", "audited"].forEach((name) => near(turn[name], row[name]));
      near(turn["audited error"], row.audited_error);
    }
    const marked = () => page.evaluate(() => { const canvas = document.querySelector("canvas"); const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height); let n = 0; for (let i = 0; i < data.length; i += 4) n += data[i] === 0xb8 && data[i + 1] === 0x4e && data[i + 2] === 0; return n; });
    assert.equal(await marked(), 0);
    const table = page.locator("table", { has: page.locator("th", { hasText: "disagreement" }) });
    await table.locator("tbody button").nth(1).click();
    await page.locator(".box", { hasText: turns[1].task }).waitFor();
    assert.ok((await page.locator(".box").innerText()).includes(`iteration ${turns[1].iteration}, sample ${turns[1].sample}, turn ${turns[1].turn}:`));
    // The box stands before the plot is drawn again.
    for (const end = Date.now() + 5000; await marked() <= 20;) assert.ok(Date.now() < end, "the chosen turn is not marked");
    await picture("audit");
    const chosen = page.url();
    const plot = page.locator(".u-over").first();
    const { width, height } = await plot.boundingBox();
    await plot.click({ position: { x: width - 4, y: height / 2 } });
    await page.waitForURL((url) => url.href !== chosen);
    assert.ok((await page.locator(".box").innerText()).includes(`advantage ${Number(Math.max(...rows.map((row) => row.credit)).toPrecision(5))}`));
    await table.locator("th button", { hasText: "credit" }).click();
    near((await cells("disagreement"))[0].credit, byCredit.at(-1).credit);

    // A turn's page says what was tried there, and leads back.
    const turn = rows[0];
    await open(`${at}/audit`, "canvas");
    await table.locator("tbody a").first().click();
    const own = page.locator(".turn").nth(turn.turn);
    await own.locator("table").waitFor();
    const tried = sql("audited", `SELECT role, answer, plays, worth, worth_error FROM audit WHERE iteration = ${turn.iteration} AND task = '${turn.task}' AND sample = ${turn.sample} AND turn = ${turn.turn} ORDER BY role, answer`);
    assert.ok(tried.length > 2);
    const drawn = await Promise.all((await own.locator("table tbody tr").all()).map((row) => row.locator("td").allInnerTexts()));
    assert.deepEqual(drawn.map((row) => row.slice(0, 3)), tried.map((row) => [row.role, row.answer, String(row.plays)]));
    drawn.forEach((row, i) => [[3, "worth"], [4, "worth_error"]].forEach(([column, name]) => near(row[column], tried[i][name])));
    await own.locator("a", { hasText: /^audit$/ }).click();
    await page.locator(".box", { hasText: turn.task }).waitFor();
    assert.ok((await page.locator(".box").innerText()).includes(`audited ${Number(turn.audited.toPrecision(5))}`));
  });

  it("counts the turns that an audit refused, and leaves hostile answers as text", async () => {
    const out = join(runs, "audited", "audit", "odd");
    mkdirSync(out);
    const refuse = (column) => `CASE WHEN sample % 2 = 0 THEN NULL ELSE ${column} END AS ${column}`;
    const odd = `SELECT * REPLACE ('odd' AS audit, '<img src=x onerror="window.hacked = 1">' AS answer, ${["worth", "worth_error", "audited", "audited_error"].map(refuse).join(", ")}, CASE WHEN sample % 4 = 0 THEN '<b>the prompt</b> is another' WHEN sample % 2 = 0 THEN 'the state is another' ELSE '' END AS refused) FROM audit WHERE audit = 'audit'`;
    writeFileSync(join(out, "turns-0000000.parquet"), execFileSync(FLOW, ["query", join(runs, "audited"), odd, "--format", "parquet"]));
    await open(`#/r/${numbers.audited}/audit?name=odd`, "canvas");
    const reasons = sql("audited", "SELECT refused AS reason, count(*)::VARCHAR AS turns FROM audit WHERE audit = 'odd' AND role = 'logged' AND refused <> '' GROUP BY ALL ORDER BY ALL");
    assert.ok(reasons.length === 2);
    assert.deepEqual((await cells("reason")).sort((a, b) => (a.reason < b.reason ? -1 : 1)), reasons);
    const restored = sql("audited", "SELECT count(*) AS n FROM audit WHERE audit = 'odd' AND role = 'logged' AND refused = ''")[0].n;
    assert.equal((await cells("disagreement")).length, restored);
    assert.ok((await cells("disagreement")).every((row) => row.answer === '<img src=x onerror="window.hacked = 1">'));
    assert.deepEqual(await page.getByLabel("Audit").locator("option").allInnerTexts(), ["audit", "odd"]);
    const { iteration, task, sample } = sql("audited", "SELECT iteration, task, sample FROM audit WHERE refused <> '' LIMIT 1")[0];
    await open(`#/r/${numbers.audited}/i/${iteration}/e/${encodeURIComponent(task)}/${sample}`, ".turn p a");
    assert.ok((await page.locator(".turn", { hasText: "was not restored" }).first().innerText()).includes("is another"));
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.match((await (await fetch(`${base}api/runs/${numbers.audited}/audit?name=other`)).json()).error, /no audit `other`: it has audit, odd/);
  });

  it("shows clusters of observations and of a memory as of an iteration", async () => {
    const name = "iteration, task, sample, attempt, turn, phase";
    await open(`#/r/${numbers.clustered}`, ".graph .node");
    await page.locator("nav a", { hasText: /^Clusters$/ }).click();
    await page.locator("table a").first().waitFor();
    const asked = (at) => sql("clustered", `SELECT c.cluster::VARCHAR AS cluster, f.prototype, f.iteration AS since, f.task, count(*) AS members, count(*) FILTER (len(r.retrieved) > 0) AS told FROM clusters c JOIN rollout r USING (${name}) JOIN clusters_at(${at}) f ON f.cluster = c.cluster WHERE c.iteration <= ${at} GROUP BY ALL ORDER BY members DESC, since, any_value(c.cluster)`);
    const entries = (at) => {
      const rows = sql("clustered", `SELECT id::VARCHAR AS id, (SELECT c.cluster::VARCHAR FROM clusters c WHERE (c.iteration, c.task, c.sample, c.attempt, c.turn) = (m.source, m.task, m.sample, m.attempt, m.turn)) AS own FROM memory_at(${at}) m`);
      const links = sql("clustered", `SELECT cluster::VARCHAR AS cluster, unnest(linked)::VARCHAR AS id FROM clusters WHERE iteration <= ${at}`);
      const all = new Map();
      const put = (cluster, id) => all.set(cluster, (all.get(cluster) || new Set()).add(id));
      rows.forEach((row) => put(row.own, row.id));
      links.filter((link) => rows.some((row) => row.id === link.id)).forEach((link) => put(link.cluster, link.id));
      return all;
    };
    for (const at of [3, 1]) {
      await open(`#/r/${numbers.clustered}/clusters/clusters?i=${at}`, "table a");
      const [drawn, expected, pools] = [await cells("prototype"), asked(at), entries(at)];
      assert.ok(expected.length > 3 && expected.some((row) => row.told > 0) && expected.some((row) => pools.get(row.cluster)?.size > 1));
      assert.equal(drawn.length, Math.min(100, expected.length));
      drawn.forEach((row, i) => {
        const { cluster, prototype, since, task, members, told } = expected[i];
        assert.deepEqual([row.cluster, row.since, row.task, row.members, row.told, row.entries], [cluster, String(since), task, String(members), String(told), String(pools.get(cluster)?.size ?? 0)]);
        assert.ok(row.prototype.startsWith(prototype.split("\n")[0]), row.prototype);
      });
    }
    const largest = asked(3).find((row) => entries(3).get(row.cluster)?.size > 0);
    await open(`#/r/${numbers.clustered}/clusters/clusters`, "table button.plain");
    await picture("clusters");
    await page.locator("button.plain", { hasText: largest.cluster }).click();
    await page.locator("aside table a").first().waitFor();
    assert.equal(await page.locator("aside > pre").innerText(), largest.prototype);
    assert.equal((await cells("founded")).length, Math.min(100, largest.members));
    assert.deepEqual(new Set((await cells("memory")).map((row) => row.id)), entries(3).get(largest.cluster));
    const newest = sql("clustered", `SELECT ${name} FROM clusters WHERE cluster = ${largest.cluster} ORDER BY iteration DESC, task, sample, attempt, turn LIMIT 1`)[0];
    const members = page.locator("aside table", { has: page.locator("th", { hasText: "founded" }) });
    assert.equal(await members.locator("a").first().getAttribute("href"), `#/r/${numbers.clustered}/i/${newest.iteration}/e/${encodeURIComponent(newest.task)}/${newest.sample}?turn=${newest.turn}&attempt=${newest.attempt}`);
    await members.locator("a").first().click();
    await page.locator(".turn").first().waitFor();
    await page.goBack();
    await page.locator("aside table a").first().click();
    await page.locator("aside h2", { hasText: "Entry" }).waitFor();

    await page.locator("nav a", { hasText: "Clusters: memory" }).click();
    const buckets = sql("clustered", "SELECT bucket::VARCHAR AS cluster, count(*)::VARCHAR AS members FROM memory_at(3) GROUP BY ALL");
    const told = sql("clustered", `SELECT bucket::VARCHAR AS cluster, count(DISTINCT (${name})) AS told FROM (SELECT ${name}, unnest(retrieved) AS id FROM rollout) JOIN (SELECT DISTINCT id, bucket FROM memory) USING (id) GROUP BY ALL`);
    await page.locator("button.plain", { hasText: buckets[0].cluster }).waitFor();
    const kept = await cells("prototype");
    assert.ok(buckets.some((bucket) => bucket.members === "2"));
    assert.deepEqual(new Map(kept.filter((row) => row.members !== "0").map((row) => [row.cluster, row.members])), new Map(buckets.map((row) => [row.cluster, row.members])));
    kept.forEach((row) => assert.equal(row.told, String(told.find((one) => one.cluster === row.cluster)?.told ?? 0)));
    kept.slice(0, 5).forEach((row) => assert.ok(row.prototype.startsWith(sql("clustered", `SELECT key FROM memory WHERE id = ${row.cluster} LIMIT 1`)[0].key.split("\n")[0])));
    await page.locator("button.plain", { hasText: kept[0].cluster }).click();
    await page.locator("aside table a").first().waitFor();
    assert.deepEqual((await cells("id")).map((row) => row.id).sort(), sql("clustered", `SELECT id::VARCHAR AS id FROM memory_at(3) WHERE bucket = ${kept[0].cluster}`).map((row) => row.id).sort());

    await open(`#/r/${numbers.one}`, ".graph .node");
    assert.equal(await page.locator("nav a", { hasText: "Clusters" }).count(), 0);
    await open(`#/r/${numbers.one}/clusters/memory`, ".problem");
    assert.match(await page.locator(".problem").innerText(), /`memory` has no clusters in the log/);
  });

  it("follows a run that goes on", async () => {
    const pipeline = join(folder, "small.yaml");
    const going = spawn(FLOW, ["run", pipeline, "--set", "iterations=400", "--out", join(runs, "going")], { cwd: ROOT, stdio: "ignore", env: { ...process.env, OMP_NUM_THREADS: "1" } });
    try {
      const number = async () => (await (await fetch(`${base}api/runs`)).json()).runs.find((run) => run.folder.endsWith("going") && run.next > 0)?.number;
      let found;
      for (let i = 0; i < 100 && found === undefined; i += 1) { found = await number(); await new Promise((over) => setTimeout(over, 200)); }
      await open(`#/r/${found}`, "header .state.running");
      const first = await page.locator("header .state").innerText();
      await page.waitForFunction((text) => document.querySelector("header .state")?.innerText !== text, first, { timeout: 30000 });
      going.kill("SIGKILL");
      await page.locator("header .state.cut-off").waitFor({ timeout: 30000 });
    } finally {
      going.kill("SIGKILL");
    }
  });

  it("draws the mean of several seeds with its band", async () => {
    const runs = [numbers.one, numbers.two, numbers.three];
    await open(`#/r/${runs[0]}/curves?${new URLSearchParams({ runs: runs.join(","), band: "1", f: "rollout return" })}`, ".curve canvas");
    await page.locator(".curve .u-series", { hasText: "mean of 3" }).waitFor();
    const asked = ["one", "two", "three"].map((run) => sql(run, "SELECT value FROM metrics WHERE node = 'rollout' AND name = 'return' ORDER BY iteration"));
    const { points } = await (await fetch(`${base}api/runs/${runs[0]}/band?runs=${runs.join(",")}&node=rollout&name=return`)).json();
    points.forEach((point, i) => {
      const values = asked.map((rows) => rows[i].value);
      const mean = values.reduce((sum, value) => sum + value, 0) / 3;
      const reach = (4.303 * Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 2)) / Math.sqrt(3);
      [mean, mean - reach, mean + reach].forEach((value, at) => near(point[[1, 4, 5][at]], value));
    });
    await picture("curves");
  });

  it("serves pages beside a run, which end with it", async () => {
    const run = spawn(FLOW, ["run", join(folder, "small.yaml"), "--set", "iterations=400", "--out", join(runs, "followed"), "--view"], { cwd: ROOT, stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, OMP_NUM_THREADS: "1" } });
    try {
      const at = await new Promise((found) => run.stderr.on("data", (text) => { const one = /http:\/\/\S+/.exec(text); if (one) found(one[0]); }));
      await open("#/r/0", "header .state.running", at);
      run.kill("SIGKILL");
      for (let i = 0; i < 100 && await fetch(at).then(() => true, () => false); i += 1) await new Promise((over) => setTimeout(over, 100));
      await assert.rejects(fetch(at));
    } finally {
      run.kill("SIGKILL");
    }
  });

  it("shows a study's tables, and the runs behind a cell", async () => {
    const file = join(folder, "study.yaml");
    writeFileSync(file, `study: small\nhome: home\npage: page.md\nseeds: [1, 2]\nruns: { small: { pipeline: small.yaml } }\ntables:\n  - title: Rows\n    rows: [{ name: small, run: small }]\n    columns: [{ name: rows, query: "select count(*) from rollout", digits: 0 }]\n`);
    flow("study", file);
    const shown = spawn(FLOW, ["view", "--study", file], { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
    try {
      const at = await new Promise((found) => shown.stdout.on("data", (text) => { const one = /http:\/\/\S+/.exec(text); if (one) found(one[0]); }));
      await open("#/study", "table.study button", at);
      const rows = ["small-1", "small-2"].map((run) => JSON.parse(flow("query", join(folder, "home", run), "SELECT count(*) AS n FROM rollout", "--format", "json"))[0].n);
      assert.ok(Math.abs(parseFloat(await page.locator("table.study td").first().innerText()) - (rows[0] + rows[1]) / 2) <= 0.5);
      await page.locator("table.study button").first().click();
      await page.locator("aside pre", { hasText: "select count(*) from rollout" }).waitFor();
      await page.locator("aside a", { hasText: "small-2" }).click();
      await page.locator(".graph .node").first().waitFor();
    } finally {
      shown.kill();
    }
  });

  it("writes the same pages as files, which need no server", async () => {
    const out = join(folder, "files");
    const said = flow("report", join(runs, "one"), join(runs, "two"), join(runs, "three"), "--out", out, "--rows", "1");
    assert.match(said, /^3 runs: \d+ files/);
    const asked = [];
    const note = (request) => asked.push(request.url());
    page.on("request", note);
    const at = `file://${out}/index.html`;
    await open("#/r/0", ".graph .node", at);
    await open("#/", "table a", at);
    await page.locator("a", { hasText: "Curves of all 3" }).click();
    await page.locator(".curve .u-series", { hasText: "mean of 3" }).first().waitFor();
    await open("#/r/2/i/3", "table a", at);
    await page.locator("table a").first().click();
    await page.locator(".turn").first().waitFor();
    await open("#/r/0/i/3?view=groups", "table a", at);
    await page.locator("table a").first().click();
    await page.locator("table.aligned").waitFor();
    await open("#/r/1/memory/memory", "table button.plain", at);
    flow("report", join(runs, "audited"), join(runs, "clustered"), "--out", out);
    await open("#/r/1/clusters/clusters", "table a", at);
    await open("#/r/0/audit", "canvas", at);
    const tried = sql("audited", "SELECT iteration, task, sample FROM audit WHERE audit = 'audit' ORDER BY iteration DESC LIMIT 1")[0];
    await open(`#/r/0/i/${tried.iteration}/e/${encodeURIComponent(tried.task)}/${tried.sample}`, ".turn table", at);
    flow("report", join(runs, "one"), join(runs, "two"), join(runs, "three"), "--out", out, "--rows", "1");
    await open("#/r/0/i/0", ".problem", at);
    assert.match(await page.locator(".problem").innerText(), /flow view/);
    page.off("request", note);
    assert.ok(asked.length > 5 && asked.every((url) => url.startsWith(`file://${out}/`) || url.startsWith("about:") || url.startsWith("data:")), asked.join("\n"));
    flow("view", join(runs, "one"), "--static", out, "--rows", "1");
    await open("#/r/0", ".graph .node", at);
  });
});
