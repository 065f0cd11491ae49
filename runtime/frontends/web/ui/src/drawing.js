/** A workflow or a graph as a drawing, with the way of a turn in it. Only ever one agent, never a tree. */
import { html } from "htm/preact";
import { timesTaken } from "./edges.js";
import { edgesOf, GAP_X, HEIGHT, laidOut, WIDTH } from "./layout.js";
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

/** @param {{ agent: Agent, events: Event[], reasons: EdgeReason[] }} props */
export function Drawing({ agent, events, reasons }) {
  const edges = edgesOf(agent);
  if (!edges.length) return null;
  const boxes = laidOut(edges, []);
  const seen = visited(events, place.value.turn ?? events.at(-1)?.invocationId);
  const taken = timesTaken(reasons);
  const all = [...boxes.values()];
  const width = Math.max(...all.map((box) => box.x)) + WIDTH + GAP_X;
  const height = Math.max(...all.map((box) => box.y)) + HEIGHT;
  const known = new Set((agent.children ?? []).map((child) => child.name));
  return html`<figure class="drawing"><svg viewBox=${`-2 -2 ${width + 4} ${height + 4}`} width=${width} height=${height} role="img" aria-label=${`Drawing of ${agent.kind} ${agent.name}`}>
    <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" /></marker>
      <marker id="head-taken" class="taken" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" /></marker></defs>
    ${edges.map(([source, target, route]) => {
      const from = boxes.get(source);
      const to = boxes.get(target);
      if (!from || !to) return null;
      const isBack = to.y <= from.y;
      const x1 = isBack ? from.x + WIDTH : from.x + WIDTH / 2;
      const y1 = isBack ? from.y + HEIGHT / 2 : from.y + HEIGHT;
      const x2 = isBack ? to.x + WIDTH : to.x + WIDTH / 2;
      const y2 = isBack ? to.y + HEIGHT / 2 : to.y;
      const path = isBack
        ? `M${x1} ${y1}C${x1 + 40} ${y1} ${x2 + 40} ${y2} ${x2} ${y2}`
        : `M${x1} ${y1}C${x1} ${y1 + 20} ${x2} ${y2 - 20} ${x2} ${y2}`;
      const times = taken.get(`${source} ${target} ${route}`) ?? 0;
      const label = [route, times > 1 ? `×${times}` : ""].filter(Boolean).join(" ");
      return html`<g key=${`${source} ${target} ${route}`} class=${times ? "taken" : ""}><path class="edge" d=${path} marker-end=${times ? "url(#head-taken)" : "url(#head)"} />
        ${label && html`<text x=${(x1 + x2) / 2 + (isBack ? 34 : 6)} y=${(y1 + y2) / 2}>${label}</text>`}</g>`;
    })}
    ${all.map(
      ({
        name,
        x,
        y,
      }) => html`<g key=${name} class=${`node ${seen.has(name) ? "taken" : ""}`} onClick=${() => known.has(name) && go({ agent: name, tab: "agent" })}>
        <rect x=${x} y=${y} width=${WIDTH} height=${HEIGHT} rx="5" /><text x=${x + WIDTH / 2} y=${y + HEIGHT / 2 + 4} text-anchor="middle">${name.length > 18 ? `${name.slice(0, 17)}…` : name}<title>${name}</title></text></g>`,
    )}
  </svg><figcaption>${seen.size ? "Marked: what had a part in the turn." : ""}</figcaption></figure>`;
}
