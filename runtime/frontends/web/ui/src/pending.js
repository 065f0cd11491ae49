/** The calls that wait for a person, over all sessions that the page may see. */
import { signal } from "@preact/signals";
import { ask } from "./api.js";

/** @import { PendingCall } from "./types.js" */

const MOST = 500;

/** Those that wait now, the newest first. */
export const pendingCalls = signal(/** @type {PendingCall[]} */ ([]));

/** Ask for them. @param {string} app @param {AbortSignal} [ending] */
export async function readPending(app, ending) {
  const { calls } = await ask(["apps", app, "pending"], { query: { limit: MOST }, ...(ending ? { signal: ending } : {}) });
  // As long as nothing has changed, nothing is drawn again, and forms keep what was written into them.
  if (JSON.stringify(calls) !== JSON.stringify(pendingCalls.value)) pendingCalls.value = calls;
}
