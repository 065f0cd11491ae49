/** A workflow or a graph as a drawing, with the way of a turn in it. Only ever one agent, never a tree. */
import { html } from "htm/preact";
import { timesTaken } from "./edges.js";
import { drawn, edgesOf, HEIGHT, LETTERS, laidOut, WIDTH } from "./layout.js";
import { go, place } from "./place.js";

/** @import { Agent, EdgeReason, Event } from "./types.js" */

/** The names of nodes and agents that took part in a turn. @param {Event[]} events @param {string | undefined} turn */
function visited(events, turn) {
  const found = new Set();
  for (const event of events) {
    if (turn && event.invocationId !== turn) continue;
    found.add(event.author);
    // Workflows speak by what they run: the branch has their names.
    for (const part of event.branch?.split(".") ?? []) found.add(part);
    for (const run of event.nodeInfo?.path?.split("/") ?? []) found.add(run.split("@")[0]);
  }
  return found;
}

/** @param {{ agent: Agent, events: Event[], reasons: EdgeReason[], running: Set<string> }} props running: the nodes that run now */
export function Drawing({ agent, events, reasons, running }) {
  const edges = edgesOf(agent);
  if (!edges.length) return null;
  const boxes = laidOut(edges, []);
  const seen = visited(events, place.value.turn ?? events.at(-1)?.invocationId);
  const taken = timesTaken(reasons);
  const times = (/** @type {[string, string, string]} */ edge) => taken.get(edge.join(" ")) ?? 0;
  const { lines, width, height } = drawn(edges, boxes, (edge) =>
    [edge[2], times(edge) > 1 ? `×${times(edge)}` : ""].filter(Boolean).join(" "),
  );
  const known = new Set((agent.children ?? []).map((child) => child.name));
  /** @param {string} name */
  const state = (name) => (running.has(name) ? "running" : seen.has(name) ? "taken" : "");
  return html`<figure class="drawing"><svg viewBox=${`-2 -2 ${width + 4} ${height + 4}`} width=${width + 4} role="img" aria-label=${`Drawing of ${agent.kind} ${agent.name}`}>
    <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" /></marker>
      <marker id="head-taken" class="taken" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" /></marker></defs>
    ${lines.map(
      ({ edge, path, text, x, y }) =>
        html`<g key=${edge.join(" ")} class=${times(edge) ? "taken" : ""}><path class="edge" d=${path} marker-end=${times(edge) ? "url(#head-taken)" : "url(#head)"} />
        ${text && html`<text x=${x} y=${y}>${text}</text>`}</g>`,
    )}
    ${[...boxes.values()].map(
      ({
        name,
        x,
        y,
      }) => html`<g key=${name} class=${`node ${state(name)}`} onClick=${() => known.has(name) && go({ agent: name, tab: "agent" })}>
        <rect x=${x} y=${y} width=${WIDTH} height=${HEIGHT} rx="5" /><text x=${x + WIDTH / 2} y=${y + HEIGHT / 2 + 4} text-anchor="middle">${running.has(name) ? "● " : ""}${name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name}<title>${name}${running.has(name) ? ", runs now" : ""}</title></text></g>`,
    )}
  </svg><figcaption>${seen.size ? "Marked: what had a part in the turn." : ""}${running.size ? " ●: what runs now." : ""}</figcaption></figure>`;
}
