// Asks the server, and reads and writes addresses: each view is an address that can be sent.
import { useEffect, useState } from "preact/hooks";

const query = (parameters) => {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return text ? `?${text}` : "";
};

/** Files of answers that were loaded, by their numbers. */
const loaded = new Map();

/** The answer that lies beside these pages, where they are files: in a script, since a page of a file may fetch nothing. */
async function asFile(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const question = [path, ...given.map(([name, value]) => `${name}=${value}`)].join("&");
  const number = window.FLOW_FILES[question];
  if (number === undefined) throw new Error("These files don't have it: `flow view` on the run itself does.");
  if (!loaded.has(number)) {
    loaded.set(number, new Promise((found, failed) => {
      const script = document.createElement("script");
      script.src = `data/${number}.js`;
      script.onload = found;
      script.onerror = () => failed(new Error(`the file data/${number}.js is missing`));
      document.head.append(script);
    }));
  }
  await loaded.get(number);
  const answer = window.FLOW_ANSWERS[question];
  if (answer.error !== undefined) throw new Error(answer.error);
  return answer;
}

/** Milliseconds in which some question was open: what pages that follow a run have cost it. */
export const cost = { spent: 0, open: 0, since: 0 };

/** The answer to a question, or an error with the server's own words. */
export async function ask(path, parameters = {}) {
  if (window.FLOW_FILES) return asFile(path, parameters);
  if (cost.open === 0) cost.since = performance.now();
  cost.open += 1;
  try {
    const response = await fetch(`api/${path}${query(parameters)}`);
    const answer = await response.json().catch(() => ({ error: `the server answered with ${response.status}` }));
    if (!response.ok) throw new Error(answer.error);
    return answer;
  } finally {
    cost.open -= 1;
    if (cost.open === 0) cost.spent += performance.now() - cost.since;
  }
}

/** The answer as it stands: asked again when the address or `tick` changes; what was there stays until the new one is. */
export function useAnswer(path, parameters = {}, tick = 0) {
  const key = path + query(parameters);
  const [state, set] = useState({ key: "", data: null, error: null });
  useEffect(() => {
    let over = false;
    const put = (change) => over || set(change);
    ask(path, parameters).then(
      (data) => put({ key, data, error: null }),
      (error) => put({ key, data: null, error: error.message }),
    );
    return () => { over = true; };
  }, [key, tick]);
  return state.key === key ? state : { key, data: null, error: null };
}

/** The parts of the address behind `#/`, and its parameters. */
export function parse(hash) {
  const [path, parameters] = hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), with: Object.fromEntries(new URLSearchParams(parameters)) };
}

/** An address of these pages. */
export const address = (parts, parameters = {}) => `#/${parts.map(encodeURIComponent).join("/")}${query(parameters)}`;

/** A link to an episode, or to one turn of it. */
export const episode = (number, iteration, row, table = "") =>
  address(["r", number, "i", String(iteration), "e", row.task, String(row.sample)], { table: table === "trajectories" ? "" : table, turn: row.turn, attempt: row.attempt });

/** The address as it is now; pages are drawn anew when it changes. */
export function useAddress() {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parse(hash);
}

/** Changes parameters of the address in place: back leads to the page before. */
export function change(parameters) {
  const now = parse(location.hash);
  location.replace(address(now.parts, { ...now.with, ...parameters }));
}
