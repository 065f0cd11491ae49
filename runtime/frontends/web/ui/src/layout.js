/** Where the nodes of a workflow or a graph stand in its drawing. */

/** @import { Agent } from "./types.js" */
/** @typedef {{ name: string, x: number, y: number }} Box */
/** @typedef {{ edge: [string, string, string], path: string, text: string, x: number, y: number }} Line */

export const WIDTH = 112;
export const HEIGHT = 30;
/** Of what a box shows of its name. */
export const LETTERS = 15;
const GAP_X = 14;
const GAP_Y = 46;
const MOST = 100;
/** Boxes beside each other: a drawing is no wider than the panel that it is in. */
const BESIDE = 3;
const LABEL = { height: 13, letter: 6.5 };
/** How far edges that lead back go round what is between their ends. */
const BACK = 26;

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
 * Boxes in layers: each node below the nodes that lead to it, by the longest way that goes in no circle. A layer of many has several
 * lines.
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
  /** @type {string[][]} */
  const layers = [];
  for (const name of names) {
    const layer = level.get(name) ?? 0;
    layers[layer] = [...(layers[layer] ?? []), name];
  }
  const lines = layers.flatMap((layer) =>
    Array.from({ length: Math.ceil(layer.length / BESIDE) }, (_, line) => layer.slice(line * BESIDE, (line + 1) * BESIDE)),
  );
  const most = Math.max(0, ...lines.map((line) => line.length));
  return new Map(
    lines.flatMap((line, row) =>
      line.map((name, column) => {
        const x = (column + (most - line.length) / 2) * (WIDTH + GAP_X);
        return [name, { name, x, y: row * (HEIGHT + GAP_Y) }];
      }),
    ),
  );
}

/**
 * The lines of edges between boxes, with places for their labels where these lie on nothing else.
 *
 * @param {[string, string, string][]} edges @param {Map<string, Box>} boxes @param {(edge: [string, string, string]) => string} labelOf
 * @returns {{ lines: Line[], width: number, height: number }} and how large the drawing is
 */
export function drawn(edges, boxes, labelOf) {
  const all = [...boxes.values()];
  let width = Math.max(0, ...all.map((box) => box.x + WIDTH));
  let height = Math.max(0, ...all.map((box) => box.y + HEIGHT));
  /** @type {{ x: number, y: number, width: number, height: number }[]} */
  const taken = all.map(({ x, y }) => ({ x, y, width: WIDTH, height: HEIGHT }));
  let back = 0;
  const lines = edges.flatMap((edge) => {
    const [from, to] = [boxes.get(edge[0]), boxes.get(edge[1])];
    if (!from || !to) return [];
    const isBack = to.y <= from.y;
    const x1 = isBack ? from.x + WIDTH : from.x + WIDTH / 2;
    const y1 = isBack ? from.y + HEIGHT / 3 : from.y + HEIGHT;
    const x2 = isBack ? to.x + WIDTH : to.x + WIDTH / 2;
    const y2 = isBack ? to.y + (HEIGHT * 2) / 3 : to.y;
    if (isBack) back++;
    const far = Math.max(...all.filter((box) => box.y >= to.y && box.y <= from.y).map((box) => box.x + WIDTH)) + BACK * back;
    const middle = isBack ? (x1 + x2 + 6 * far) / 8 : (x1 + x2) / 2;
    const path = isBack
      ? `M${x1} ${y1}C${far} ${y1} ${far} ${y2} ${x2} ${y2}`
      : `M${x1} ${y1}C${x1} ${y1 + 20} ${x2} ${y2 - 20} ${x2} ${y2}`;
    width = Math.max(width, middle);
    const text = labelOf(edge);
    const size = { width: text.length * LABEL.letter, height: LABEL.height };
    const label = { x: middle + 4, y: (y1 + y2) / 2 - LABEL.height / 2, ...size };
    if (text) {
      for (let hit = true; hit; ) {
        const other = taken.find((each) => areOver(each, label));
        hit = Boolean(other);
        if (other) label.y = other.y + other.height;
      }
      taken.push(label);
      width = Math.max(width, label.x + label.width);
      height = Math.max(height, label.y + label.height);
    }
    return [{ edge, path, text, x: label.x, y: label.y + LABEL.height - 3 }];
  });
  return { lines, width, height };
}

/** @typedef {{ x: number, y: number, width: number, height: number }} Area */

/** True for areas of which one lies on the other. @param {Area} one @param {Area} other */
const areOver = (one, other) =>
  one.x < other.x + other.width && other.x < one.x + one.width && one.y < other.y + other.height && other.y < one.y + one.height;
