// Light or dark: as the system has it, unless the reader chose one. The choice is kept in this browser.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";

const KEY = "flow-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Pages that are files may have no storage: then a choice lasts until the page is left. */
function kept() {
  try { return localStorage.getItem(KEY) || ""; } catch { return ""; }
}

function choose(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem(KEY, theme); } catch { /* it is set for this page */ }
  dispatchEvent(new Event("theme"));
}

document.documentElement.dataset.theme = kept();

/** The theme that is drawn now, `light` or `dark`: for canvases, which have no styles. */
export function useTheme() {
  const now = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  const [theme, set] = useState(now);
  useEffect(() => {
    const changed = () => set(now());
    addEventListener("theme", changed);
    dark.addEventListener("change", changed);
    // It may have changed since this was drawn.
    changed();
    return () => { removeEventListener("theme", changed); dark.removeEventListener("change", changed); };
  }, []);
  return theme;
}

/** The switch, in the head of each page. */
export function Theme() {
  const [theme, set] = useState(kept);
  return html`<select class="theme" aria-label="light or dark" value=${theme} onChange=${(event) => { choose(event.target.value); set(event.target.value); }}>
    ${[["", "colours: as the system"], ["light", "light"], ["dark", "dark"]].map(([value, name]) => html`<option key=${value} value=${value} selected=${value === theme}>${name}</option>`)}</select>`;
}
