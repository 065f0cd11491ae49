/** A workflow or a graph as a drawing, with the way of a turn in it. Only ever one agent, never a tree. */
import { html } from "htm/preact";
import { go, place } from "./place.js";

/** @import { Agent, Event } from "./types.js" */
/** @typedef {{ name: string, x: number, y: number }} Box */

const WIDTH = 130;
const HEIGHT = 30;
const GAP_X = 46;
const GAP_Y = 26;
const MOST = 100;

/** The edges of an agent that runs others. @param {Agent} agent @returns {[string, string, string][]} */
export function edgesOf(agent) {
  if (agent.edges?.length) return agent.edges.map(([source, target, route = ""]) => [source, target, route]);
  const names = (agent.children ?? []).map((child) => child.name);
  if (agent.kind === "sequential" || agent.kind === "loop") {
    /** @type {[string, string, string][]} */
    const edges = names.slice(1).map((name, index) => [names[index] ?? "", name, ""]);
    if (agent.kind === "loop" && names.length) edges.push([names.at(-1) ?? "", names[0] ?? "", "again"]);
    return edges;
  }
  if (agent.kind === "parallel") return names.map((name) => [agent.name, name, ""]);
  return [];
}

/**
 * Boxes in layers: each node below the nodes that lead to it, by the longest way that goes in no circle.
 *
 * @param {[string, string, string][]} edges
 * @param {string[]} alone nodes that no edge may name
 * @returns {Map<string, Box>}
 */
export function laidOut(edges, alone) {
  const names = [...new Set([...edges.flatMap((edge) => edge.slice(0, 2)), ...alone])].slice(0, MOST);
  /** @type {Map<string, number>} */
  const level = new Map();
  const targets = new Set(edges.filter(([source, target]) => source !== target).map(([, target]) => target));
  const starts = names.filter((name) => !targets.has(name));
  const waiting = (starts.length ? starts : names.slice(0, 1)).map((name) => ({ name, depth: 0, way: new Set([name]) }));
  let steps = 0;
  for (const { name, depth, way } of waiting) {
    if (steps++ > 5_000) break;
    if ((level.get(name) ?? -1) >= depth) continue;
    level.set(name, depth);
    for (const [source, target] of edges) {
      if (source === name && !way.has(target)) waiting.push({ name: target, depth: depth + 1, way: new Set([...way, target]) });
    }
  }
  /** @type {Map<number, number>} */
  const used = new Map();
  return new Map(
    names.map((name) => {
      const y = level.get(name) ?? 0;
      const x = used.get(y) ?? 0;
      used.set(y, x + 1);
      return [name, { name, x: x * (WIDTH + GAP_Y), y: y * (HEIGHT + GAP_X) }];
    }),
  );
}

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

/** @param {{ agent: Agent, events: Event[] }} props */
export function Drawing({ agent, events }) {
  const edges = edgesOf(agent);
  if (!edges.length) return null;
  const boxes = laidOut(edges, []);
  const seen = visited(events, place.value.turn ?? events.at(-1)?.invocationId);
  const all = [...boxes.values()];
  const width = Math.max(...all.map((box) => box.x)) + WIDTH + GAP_X;
  const height = Math.max(...all.map((box) => box.y)) + HEIGHT;
  const known = new Set((agent.children ?? []).map((child) => child.name));
  return html`<figure class="drawing"><svg viewBox=${`-2 -2 ${width + 4} ${height + 4}`} width=${width} height=${height} role="img" aria-label=${`Drawing of ${agent.kind} ${agent.name}`}>
    <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" /></marker></defs>
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
      return html`<g key=${`${source} ${target} ${route}`} ><path class="edge" d=${path} marker-end="url(#head)" />
        ${route && html`<text x=${(x1 + x2) / 2 + (isBack ? 34 : 6)} y=${(y1 + y2) / 2}>${route}</text>`}</g>`;
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
