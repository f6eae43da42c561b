// The pipeline as a graph, laid out by dagre.
import { html } from "htm/preact";
import { useMemo } from "preact/hooks";
import dagre from "@dagrejs/dagre";

const WIDTH = 156;
const HEIGHT = 46;

function layout(nodes) {
  const graph = new dagre.graphlib.Graph({ compound: true }).setGraph({ rankdir: "LR", nodesep: 18, ranksep: 46, marginx: 44, marginy: 20 }).setDefaultEdgeLabel(() => ({}));
  const loops = new Set(nodes.filter((node) => node.holds).map((node) => node.id));
  for (const node of nodes) {
    if (loops.has(node.id)) graph.setNode(node.id, {});
    else graph.setNode(node.id, { width: WIDTH, height: HEIGHT });
    if (node.loop && node.loop !== node.id) graph.setParent(node.id, node.loop);
  }
  // An edge ends at a node and never at a frame: dagre lays frames out around what they hold.
  const inside = new Map(nodes.filter((node) => node.holds).map((node) => [node.id, node.holds[0]]));
  const edges = [];
  for (const node of nodes.filter((node) => !node.holds)) {
    for (const input of node.inputs) {
      const from = inside.get(input.from) || input.from;
      if (!nodes.some((other) => other.id === from) || from === node.id) continue;
      edges.push({ from, to: node.id, port: input.port, delayed: input.staleness !== null && input.staleness !== undefined });
      // What comes an iteration later would turn the picture round.
      if (!edges.at(-1).delayed) graph.setEdge(from, node.id);
    }
  }
  dagre.layout(graph);
  return { graph, edges, loops };
}

/** As much of a text as fits into a node. */
const fitting = (text) => (text.length > 26 ? `${text.slice(0, 25)}…` : text);

const path = (points) => points.map((point, i) => `${i ? "L" : "M"}${point.x},${point.y}`).join(" ");

/** The nodes with what each does now; `chosen` is marked, and a click chooses. */
export function Graph({ nodes, activity = {}, chosen, onChoose }) {
  const { graph, edges, loops } = useMemo(() => layout(nodes), [JSON.stringify(nodes)]);
  const { width, height } = graph.graph();
  const box = (id) => graph.node(id);
  const line = (edge) => {
    if (!edge.delayed) return path(graph.edge(edge.from, edge.to).points);
    // It leaves to the right and comes from the left, between the columns, and below all nodes: it crosses none.
    const [a, b] = [box(edge.from), box(edge.to)];
    const aside = 8 + 5 * (delayed.indexOf(edge) % 5);
    return `M${a.x + WIDTH / 2},${a.y} H${a.x + WIDTH / 2 + aside} V${low(edge)} H${b.x - WIDTH / 2 - aside - 6} V${b.y} H${b.x - WIDTH / 2}`;
  };
  const delayed = edges.filter((edge) => edge.delayed);
  const low = (edge) => height + 8 * delayed.indexOf(edge);
  const depth = height + 8 * delayed.length;
  return html`<div class="scroll"><svg class="graph" viewBox=${`0 0 ${width} ${depth}`} width=${width} height=${depth} role="group" aria-label="the pipeline's nodes">
    <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" /></marker></defs>
    ${[...loops].map((id) => { const at = box(id); return html`<g key=${id} class="frame"><rect x=${at.x - at.width / 2} y=${at.y - at.height / 2} width=${at.width} height=${at.height} rx="6" /><text x=${at.x - at.width / 2 + 8} y=${at.y - at.height / 2 - 5}>${id}</text></g>`; })}
    ${edges.map((edge) => html`<path key=${`${edge.from} ${edge.to} ${edge.port}`} class=${edge.delayed ? "edge delayed" : "edge"} d=${line(edge)} marker-end="url(#tip)"><title>${edge.from} → ${edge.to} (${edge.port}${edge.delayed ? ", an iteration later" : ""})</title></path>`)}
    ${nodes.filter((node) => !node.holds).map((node) => {
      const at = box(node.id);
      const now = activity[node.id] || {};
      return html`<g key=${node.id} class=${`node ${chosen === node.id ? "chosen" : ""} ${now.state === "running" ? "busy" : ""}`} transform=${`translate(${at.x - WIDTH / 2},${at.y - HEIGHT / 2})`}
        tabindex="0" role="button" aria-pressed=${chosen === node.id} onClick=${() => onChoose(node.id)} onKeyDown=${(event) => (event.key === "Enter" || event.key === " ") && onChoose(node.id)}>
        <rect width=${WIDTH} height=${HEIGHT} rx="6" class=${node.logged ? "logged" : ""} />
        <text x="10" y="19" class="name">${node.id}</text>
        <text x="10" y="36" class="about">${fitting(now.text || node.op)}</text><title>${node.id}: ${node.op}${now.text ? `; ${now.text} of the time` : ""}</title></g>`;
    })}
  </svg></div>`;
}
