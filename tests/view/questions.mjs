// Five questions about a training, answered in a real Chromium by clicks alone, on two runs that are trained here. Each answer is held against SQL;
// the clicks and the seconds that the pages took are printed. `make test-view` runs it.
import { strict as assert } from "node:assert";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

const ROOT = new URL("../..", import.meta.url).pathname;
const { chromium } = createRequire(join(ROOT, "view/package.json"))("playwright-core");
const FLOW = join(ROOT, "target/release/flow");
const ENV = { ...process.env, OMP_NUM_THREADS: "1" };
const folder = mkdtempSync(join(tmpdir(), "flow-questions-"));
const runs = process.env.RUNS || join(folder, "runs");
const flow = (...given) => execFileSync(FLOW, given, { cwd: ROOT, encoding: "utf8", env: ENV, stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28 });
const sql = (text) => JSON.parse(flow("query", join(runs, "one"), text, "--format", "json"));

let server;
let browser;
let page;
let base;
let clicks = 0;
const spent = [];

before(async () => {
  if (!process.env.RUNS) {
    flow("run", "tests/view/questions.yaml", "--out", join(runs, "one"));
    flow("run", "tests/view/questions.yaml", "--set", "nodes.update.with.lr=1e-3", "--out", join(runs, "two"));
  }
  server = spawn(FLOW, ["view", join(runs, "one"), join(runs, "two")], { cwd: ROOT, env: ENV, stdio: ["ignore", "pipe", "inherit"] });
  base = await new Promise((found) => server.stdout.on("data", (text) => { const at = /http:\/\/\S+/.exec(text); if (at) found(at[0]); }));
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
  page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  if (process.env.ASSETS) for (const name of ["app.js", "app.css"]) await page.route(`**/${name}`, (route) => route.fulfill({ path: join(process.env.ASSETS, name) }));
});

after(async () => {
  await browser?.close();
  server?.kill();
  rmSync(folder, { recursive: true, force: true });
  for (const [question, count, seconds] of spent) console.log(`${question.padEnd(70)} ${count} clicks, ${seconds.toFixed(1)} s`);
});

const click = async (wanted, options) => { clicks += 1; await wanted.click(options); };
const there = (selector, text) => page.locator(selector, text && { hasText: text }).first();
const picture = (name) => process.env.PICTURES && page.screenshot({ path: join(process.env.PICTURES, `${name}.png`) });

/** A question that begins at an address, and how it is answered. */
function asked(question, begin, answer) {
  it(question, async () => {
    await page.goto("about:blank");
    await page.goto(base + begin);
    clicks = 0;
    const start = performance.now();
    await answer();
    spent.push([question, clicks, (performance.now() - start) / 1000]);
  });
}

const success = () => sql("SELECT iteration, value FROM metrics WHERE node = 'rollout' AND name = 'success' ORDER BY iteration");

describe("five questions", () => {
  asked("Why did success fall at this iteration?", "#/r/0", async () => {
    const values = success();
    const fell = values.slice(1).map((row, i) => ({ ...row, by: values[i].value - row.value })).sort((a, b) => b.by - a.by)[0].iteration;
    // The point of the curve.
    const plot = page.locator("figure", { hasText: "success (rollout)" }).locator(".u-over");
    await plot.waitFor();
    const { width, height } = await plot.boundingBox();
    await picture("overview");
    await click(plot, { position: { x: (width * fell) / values.at(-1).iteration, y: height / 2 } });
    await page.waitForURL(new RegExp(`/i/${fell}$`));
    await there(".figures").waitFor();
    assert.match(await page.locator(".figures").innerText(), /success[^]*↓ from/);
    await click(there("a", `updates of iteration ${fell - 1}`));
    const largest = sql(`SELECT task, sample, turn FROM provenance WHERE iteration = ${fell - 1} ORDER BY logit_grad DESC NULLS LAST, task, sample, attempt, turn, phase LIMIT 1`)[0];
    const row = page.locator("table", { has: page.locator("th", { hasText: "logit grad" }) }).locator("tbody tr").first();
    await row.waitFor();
    assert.ok((await row.innerText()).includes(largest.task));
    await picture("updates");
    await click(row.locator("a"));
    await there(".turn .answer").waitFor();
  });

  asked("Which memory entry helped most?", "#/r/0", async () => {
    await click(there("nav a", "Memory"));
    const table = page.locator("table", { has: page.locator("th", { hasText: "return with" }) });
    await table.first().waitFor();
    const [id, , , told, , , difference] = await table.locator("tbody tr").first().locator("td").allInnerTexts();
    const told_by = sql(`SELECT count(DISTINCT (iteration, task, sample)) AS n, avg(earned) AS mean FROM (SELECT iteration, task, sample, sum(reward) AS earned FROM rollout WHERE (iteration, task, sample) IN (SELECT (iteration, task, sample) FROM rollout WHERE list_contains(retrieved, ${id})) GROUP BY ALL)`)[0];
    assert.equal(told, String(told_by.n));
    assert.ok(Number(difference) > 0);
    await picture("memory");
    await click(table.locator("tbody button").first());
    await there("aside table a").waitFor();
  });

  asked("Why has this turn a negative advantage though the episode was won?", "#/r/0", async () => {
    const { iteration, task, sample, turn } = sql("SELECT iteration, task, sample, turn FROM trajectories WHERE phase = 'play' AND won AND advantage < 0 ORDER BY advantage, iteration, task, sample, turn LIMIT 1")[0];
    await page.goto(`${base}#/r/0/i/${iteration}/e/${encodeURIComponent(task)}/${sample}`);
    await there(".turn .sum").waitFor();
    const own = page.locator(".turn").nth(turn);
    assert.match(await own.innerText(), /advantage: .*=.*-|advantage: .*= −?-/);
    assert.match(await own.innerText(), /Its return is below the baseline/);
    await click(own.locator("a", { hasText: "compared with" }));
    await there("table.aligned").waitFor();
    await picture("group");
  });

  asked("What does the policy do in the task that it never solves?", "#/r/0", async () => {
    await click(there("nav a", "Panel"));
    const never = page.locator("details", { has: page.locator("summary", { hasText: "were won in none of" }) });
    await never.waitFor();
    const tasks = sql("SELECT task FROM evaluate GROUP BY task HAVING NOT bool_or(won) ORDER BY task");
    assert.match(await never.locator("summary").innerText(), new RegExp(`^${tasks.length} of`));
    if (!(await never.evaluate((details) => details.open))) await click(never.locator("summary"));
    await picture("panel");
    const link = never.locator("table a").first();
    if (tasks.length > 0) assert.equal(await link.innerText(), tasks[0].task);
    await click(link);
    await there(".turn .answer").waitFor();
    await picture("episode");
  });

  it("has pictures of the other pages", { skip: !process.env.PICTURES }, async () => {
    const shots = {
      runs: ["#/", "table a"], curves: [`#/r/0/curves?${new URLSearchParams({ runs: "0,1", smooth: "3", f: "rollout success,evaluate success,update entropy,update grad_norm" })}`, ".curve canvas"],
      sql: [`#/r/0/sql?${new URLSearchParams({ as: "bars", q: "SELECT action, count(*) AS turns FROM rollout WHERE NOT won GROUP BY action ORDER BY turns DESC LIMIT 12" })}`, ".bars"],
    };
    for (const [name, [hash, wanted]] of Object.entries(shots)) {
      await page.goto("about:blank");
      await page.goto(base + hash);
      await there(wanted).waitFor();
      await page.waitForTimeout(500);
      await picture(name);
    }
  });

  asked("What did the second run do differently first?", "#/", async () => {
    for (const box of await (async () => { await there("table input").waitFor(); return page.locator("table input").all(); })()) await click(box);
    await click(there("a", "First difference"));
    await there("table.first").waitFor();
    assert.match(await there("h2", "The first difference").innerText(), /iteration 1$/);
    await picture("compare");
    await click(there("table.first a"));
    await there(".turn .answer").waitFor();
  });
});
