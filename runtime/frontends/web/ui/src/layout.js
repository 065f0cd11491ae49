/** Where the nodes of a workflow or a graph stand in its drawing. */

/** @import { Agent } from "./types.js" */
/** @typedef {{ name: string, x: number, y: number }} Box */

export const WIDTH = 130;
export const HEIGHT = 30;
export const GAP_X = 46;
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
