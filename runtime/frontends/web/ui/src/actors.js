/** Which agents live: their processes and figures. Only administrators may know; for others nothing is asked. */
import { signal } from "@preact/signals";
import { ask, me } from "./api.js";

/** @import { Actor } from "./types.js" */

const PAGE = 1000;
const PAGES = 10;

/** The actors of agents that live, by the agents' names. */
export const liveActors = signal(/** @type {Map<string, Actor[]>} */ (new Map()));

/** Ask for them. @param {string} app @param {AbortSignal} [ending] */
export async function readActors(app, ending) {
  if (!me.value?.isAdmin) return;
  /** @type {Map<string, Actor[]>} */
  const found = new Map();
  let offset = 0;
  for (let page = 0; page < PAGES; page++) {
    const { actors, next } = await ask(["apps", app, "actors"], {
      query: { limit: PAGE, offset },
      ...(ending ? { signal: ending } : {}),
    });
    for (const actor of actors) if (actor.agent) found.set(actor.agent, [...(found.get(actor.agent) ?? []), actor]);
    if (!next) break;
    offset = next;
  }
  liveActors.value = found;
}
