/** Two turns step by step, beside each other where they are the same: pure functions. */
import { calls, responses, shownEvents, textOf } from "./log.js";

/** @import { Event } from "./types.js" */
/** @typedef {{ left: Event | undefined, right: Event | undefined, isSame: boolean }} Pair */

const MOST = 500;

/** What a step says, without what differs from turn to turn in any case: ids and times. @param {Event} event */
export function saidBy(event) {
  const { author, actions = {}, errorCode, errorMessage, output } = event;
  const called = calls(event).map(({ name, args }) => [name, args]);
  const answered = responses(event).map(({ name, response }) => [name, response]);
  const acts = [actions.stateDelta ?? {}, actions.transferToAgent, actions.route, Object.keys(actions.artifactDelta ?? {})];
  return JSON.stringify([author, textOf(event), called, answered, acts, errorCode, errorMessage, output]);
}

/**
 * The steps of two turns in pairs: those that are the same stand beside each other, in the longest common order.
 *
 * @param {Event[]} left @param {Event[]} right @returns {Pair[]}
 */
export function aligned(left, right) {
  const [one, other] = [left, right].map((events) => [...shownEvents(events)].slice(0, MOST));
  const [a, b] = [one ?? [], other ?? []];
  const [saidA, saidB] = [a.map(saidBy), b.map(saidBy)];
  const width = b.length + 1;
  // For each two rests of the turns, how many steps they have in common.
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) {
      const below = common[(i + 1) * width + j] ?? 0;
      const beside = common[i * width + j + 1] ?? 0;
      common[i * width + j] = saidA[i] === saidB[j] ? (common[(i + 1) * width + j + 1] ?? 0) + 1 : Math.max(below, beside);
    }
  /** @type {Pair[]} */
  const pairs = [];
  let [i, j] = [0, 0];
  /** Steps that only one of the turns has, beside each other. @param {number} toI @param {number} toJ */
  const differ = (toI, toJ) => {
    while (i < toI || j < toJ) {
      const left = i < toI ? a[i++] : undefined;
      const right = j < toJ ? b[j++] : undefined;
      pairs.push({ left, right, isSame: false });
    }
  };
  let [x, y] = [0, 0];
  while (x < a.length && y < b.length) {
    if (saidA[x] === saidB[y]) {
      differ(x, y);
      pairs.push({ left: a[i++], right: b[j++], isSame: true });
      x++;
      y++;
    } else if ((common[(x + 1) * width + y] ?? 0) >= (common[x * width + y + 1] ?? 0)) x++;
    else y++;
  }
  differ(a.length, b.length);
  return pairs;
}
