/** Why edges of graphs were taken, in words, and how often: pure functions. */

/** @import { EdgeReason } from "./types.js" */

/** @param {EdgeReason} reason */
const said = (reason) => (reason.said ?? []).map((route) => JSON.stringify(route)).join(", ");

/** @type {Record<EdgeReason["because"], (reason: EdgeReason) => string>} */
const BECAUSE = {
  always: () => "it has no route, so it is always taken",
  route: (reason) => `${reason.source} said ${said(reason)}`,
  default: (reason) => `${reason.source} said ${said(reason) || "no route"}, for which there is no other edge`,
  other: (reason) => `${reason.source} said ${said(reason)}`,
  silent: (reason) => `${reason.source} said no route`,
  patient: (reason) => `${reason.source} leads on with an output only, and gave none`,
};

/** Why an edge was taken or not, in words. @param {EdgeReason} reason */
export const becauseOf = (reason) => BECAUSE[reason.because](reason);

/**
 * How often each edge of a drawing was taken: the keys are `source target route`, with routes as drawings have them.
 *
 * @param {EdgeReason[]} reasons @returns {Map<string, number>}
 */
export function timesTaken(reasons) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const { source, target, taken, because, said = [] } of reasons) {
    if (!taken) continue;
    const routes = because === "always" ? [""] : because === "default" ? ["otherwise"] : said.map(worded);
    for (const route of routes) {
      const key = `${source} ${target} ${route}`;
      found.set(key, (found.get(key) ?? 0) + 1);
    }
  }
  return found;
}

/** A route as drawings have it. @param {boolean | number | string} route */
const worded = (route) => (typeof route === "boolean" ? (route ? "True" : "False") : String(route));
