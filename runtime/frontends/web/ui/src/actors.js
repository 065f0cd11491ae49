/** Which agents live and have lived: their processes and figures. Only administrators may know; for others nothing is asked. */
import { signal } from "@preact/signals";
import { ask, me } from "./api.js";

/** @import { Actor } from "./types.js" */

/** The service asks all actors for each page. */
const PAGE = 10_000;
const PAGES = 10;

/** The actors of agents, by the agents' names. Of an agent that has lived and does not now there is one without a process. */
export const actorsByAgent = signal(/** @type {Map<string, Actor[]>} */ (new Map()));

/** Those that live. @param {Actor[] | undefined} actors */
export const living = (actors) => (actors ?? []).filter((actor) => actor.lives);

/** How often an agent was activated. @param {Actor[] | undefined} actors */
export const timesActivated = (actors) => (actors ?? []).reduce((sum, actor) => sum + (actor.counts.activations ?? 0), 0);

/** The agent of an actor, whose name has the number of a replica and the version of a changed agent behind it. @param {Actor} actor */
const agentOf = (actor) => /^@?[^@/]*/.exec(actor.agent)?.[0] ?? "";

/** Ask for them. @param {string} app @param {AbortSignal} [ending] */
export async function readActors(app, ending) {
  if (!me.value?.isAdmin) return;
  /** @type {Map<string, Actor[]>} */
  const found = new Map();
  let offset = 0;
  for (let page = 0; page < PAGES; page++) {
    const { actors, next } = await ask(["apps", app, "actors"], {
      query: { limit: PAGE, offset, asleep: true },
      ...(ending ? { signal: ending } : {}),
    });
    for (const actor of actors) {
      const agent = agentOf(actor);
      if (agent) found.set(agent, [...(found.get(agent) ?? []), actor]);
    }
    if (!next) break;
    offset = next;
  }
  actorsByAgent.value = found;
}
