// `flow view` on a run of 1,000,000 turns and 2,000 iterations, in a real Chromium: how long each page takes, how much memory the server has, whether
// a long episode scrolls without a pause. `node benches/view.mjs FOLDER` makes the run in FOLDER where it isn't there yet (REPEAT names the
// program that `cargo bench --bench view --no-run` builds), and measures; `--scroll` measures the long episode alone, `--live` how much a page slows a run that it follows,
// `--visit RUN HASH CSS` how long a page of another run takes.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const ROOT = new URL("..", import.meta.url).pathname;
const { chromium } = createRequire(join(ROOT, "view/package.json"))("playwright-core");
const FLOW = process.env.FLOW || join(ROOT, "target/release/flow");
const ENV = { ...process.env, OMP_NUM_THREADS: "1" };
const ITERATIONS = Number(process.env.ITERATIONS || 2000);
const TIMES = 20;
const folder = process.argv[2];
const [short, long] = ["short", "long"].map((name) => join(folder, name));
const flow = (...given) => execFileSync(FLOW, given, { cwd: ROOT, encoding: "utf8", env: ENV, stdio: ["ignore", "pipe", "inherit"], maxBuffer: 1 << 28 });
const ask = (text) => JSON.parse(flow("query", long, text, "--format", "json"));
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

function make() {
  if (!existsSync(short)) flow("run", "benches/view.yaml", "--out", short);
  if (existsSync(long)) return;
  const [program, ...given] = process.env.REPEAT ? [process.env.REPEAT] : ["cargo", "bench", "--bench", "view", "--"];
  execFileSync(program, [...given, short, long, String(ITERATIONS)], { cwd: ROOT, env: ENV, stdio: "inherit" });
}

function serve(...given) {
  const server = spawn(FLOW, ["view", ...given], { cwd: ROOT, env: ENV, stdio: ["ignore", "pipe", "inherit"] });
  process.on("exit", () => server.kill());
  const base = new Promise((found) => server.stdout.on("data", (text) => { const at = /http:\/\/\S+/.exec(text); if (at) found(at[0]); }));
  return { server, base };
}

const memory = (server) => Object.fromEntries(["VmRSS", "VmHWM"].map((name) => [name, Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))[1]) / 1024)]));

async function browse() {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  if (process.env.ASSETS) for (const name of ["app.js", "app.css"]) await page.route(`**/${name}`, (route) => route.fulfill({ path: join(process.env.ASSETS, name) }));
  return { browser, page };
}

/** Milliseconds of rest between two visits, as a person takes it: the server prepares the next question in them. */
const REST = 1000;

/** Milliseconds from the address until what was wanted is there and seen. It is looked for at each frame: a locator's own looks are up to half a second apart. */
async function opened(page, base, hash, wanted) {
  await page.goto("about:blank");
  await page.waitForTimeout(REST);
  const start = performance.now();
  await page.goto(base + hash);
  const seen = (css) => [...document.querySelectorAll(css)].some((element) => element.getClientRects().length > 0);
  await page.waitForFunction(seen, wanted, { polling: "raf" });
  return performance.now() - start;
}

async function pages() {
  make();
  const { turns, iterations } = ask("SELECT count(*) AS turns, count(DISTINCT iteration) AS iterations FROM rollout")[0];
  const i = Math.floor(ITERATIONS / 2);
  const { task, sample, group } = ask(`SELECT task, sample, "group"::VARCHAR AS "group" FROM trajectories WHERE iteration = ${i} AND "group" IS NOT NULL ORDER BY ALL LIMIT 1`)[0];
  const { id } = ask("SELECT id::VARCHAR AS id FROM memory ORDER BY iteration DESC LIMIT 1")[0];
  const row = encodeURIComponent(task);
  const all = [
    ["first page: overview", "#/r/0", ".curve canvas"], ["list of runs", "#/", "table a"], ["curves", "#/r/0/curves", ".curve canvas"],
    ["iteration: episodes", `#/r/0/i/${i}`, "table a"], ["iteration: groups", `#/r/0/i/${i}?view=groups`, "table a"], ["iteration: updates", `#/r/0/i/${i}?view=updates`, "table a"],
    ["group", `#/r/0/i/${i}/g/${group}`, "table.aligned"], ["episode", `#/r/0/i/${i}/e/${row}/${sample}`, ".turn .answer"],
    ["memory: entries", "#/r/0/memory/memory", "caption"], ["memory: which helped", "#/r/0/memory/memory", "h2 ~ p ~ .scroll table"], ["memory: turns that read an entry", `#/r/0/memory/memory?entry=${id}`, "aside p"],
    ["panel", "#/r/0/panel/evaluate", "table a"], ["failures", "#/r/0/failures", "main p"], ["SQL: one iteration", `#/r/0/sql?${new URLSearchParams({ q: `SELECT action, count(*) AS n FROM rollout WHERE iteration = ${i} GROUP BY action` })}`, ".side div table td"],
  ];
  console.log(`${turns} turns, ${iterations} iterations; JavaScript ${statSync(join(ROOT, "src/cli/view/assets/app.js")).size} bytes`);
  const { browser, page } = await browse();
  const { server, base } = serve(long);
  const cold = await opened(page, await base, "#/r/0", ".curve canvas");
  console.log(`the first page after the start of the server: ${cold.toFixed(0)} ms`);
  for (const [name, hash, wanted] of all) await visit(page, await base, name, hash, wanted);
  console.log("server, MB:", JSON.stringify(memory(server)));
  await scroll(page, await base);
  console.log("server, MB:", JSON.stringify(memory(server)));
  await browser.close();
  server.kill();
}

/** How long a page takes at first, and when it is loaded anew. */
async function visit(page, base, name, hash, wanted) {
  const once = await opened(page, base, hash, wanted);
  const times = [];
  for (let n = 0; n < TIMES; n += 1) times.push(await opened(page, base, hash, wanted));
  console.log(`${name.padEnd(34)} median ${median(times).toFixed(0).padStart(5)} ms, most ${Math.max(...times).toFixed(0).padStart(5)} ms, at first ${once.toFixed(0).padStart(5)} ms`);
}

/** Pages of another run: `--visit RUN HASH CSS [HASH CSS]...`, where an element CSS is seen when the page is there. */
async function visits(run, ...wanted) {
  const { browser, page } = await browse();
  const { server, base } = serve(run);
  for (let n = 0; n < wanted.length; n += 2) await visit(page, await base, wanted[n], wanted[n], wanted[n + 1]);
  await browser.close();
  server.kill();
}

/** The longest time between two frames while the page is scrolled to its end. */
const pause = (page) => page.evaluate(async () => {
  let worst = 0;
  let last = performance.now();
  let over = false;
  const frame = (now) => { worst = Math.max(worst, now - last); last = now; if (!over) requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  for (let at = 0; at < document.body.scrollHeight; at += 400) {
    scrollTo(0, at);
    await new Promise((next) => requestAnimationFrame(next));
  }
  over = true;
  return { worst: Math.round(worst), pixels: document.body.scrollHeight };
});

async function scroll(page, base) {
  const at = `#/r/0/i/${ITERATIONS - 1}/e/long-episode/0?table=rollout`;
  console.log(`long episode: ${(await opened(page, base, at, ".turn .answer")).toFixed(0)} ms, ${await page.locator(".turn").count()} turns`);
  console.log("scrolling through its turns:", JSON.stringify(await pause(page)));
  // What the last turn read, 100,000 tokens, whole.
  const turn = page.locator(".turn").last();
  await turn.locator("summary", { hasText: "as before" }).click();
  await turn.locator("button", { hasText: "show the other" }).first().click();
  await turn.locator(".parts pre").first().waitFor();
  console.log("scrolling with the prompt of 100,000 tokens open:", JSON.stringify(await pause(page)), `${(await turn.locator(".parts").allTextContents()).join("").length} characters`);
}

async function alone() {
  const { browser, page } = await browse();
  const { server, base } = serve(long);
  await scroll(page, await base);
  console.log("server, MB:", JSON.stringify(memory(server)));
  await browser.close();
  server.kill();
}

/** The seconds of a run alone and with a page that follows it, in turn. */
async function live() {
  const given = ["run", "benches/view.yaml", "--set", `iterations=${process.env.LIVE || 60}`, "--format", "json", "--out"];
  const { browser, page } = await browse();
  const train = (out, followed) => new Promise((found) => {
    const run = spawn(FLOW, [...given, out, ...(followed ? ["--view"] : [])], { cwd: ROOT, env: ENV, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    run.stdout.on("data", (part) => { text += part; });
    run.stderr.on("data", (part) => { const at = /http:\/\/\S+/.exec(part); if (at) page.goto(`${at[0]}#/r/0`).catch(() => {}); });
    run.on("exit", () => found(JSON.parse(text).seconds));
  });
  const ratios = [];
  for (let n = 0; n < Number(process.env.PAIRS || 3); n += 1) {
    const both = {};
    for (const followed of n % 2 ? [true, false] : [false, true]) both[followed] = await train(join(folder, `live-${process.pid}-${n}-${followed}`), followed);
    ratios.push(both[true] / both[false]);
    console.log(`alone ${both[false].toFixed(1)} s, followed ${both[true].toFixed(1)} s: ${ratios.at(-1).toFixed(3)}`);
  }
  console.log(`median ratio ${median(ratios).toFixed(3)}`);
  await browser.close();
}

await (process.argv[2] === "--visit" ? visits(...process.argv.slice(3)) : process.argv.includes("--live") ? live() : process.argv.includes("--scroll") ? alone() : pages());
