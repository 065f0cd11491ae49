/** Which version of its tree an app has, for all that show something of the tree. */
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { ask, me } from "./api.js";
import { usePolling } from "./polling.js";

/** @import { Version } from "./types.js" */

const LOOK_MS = 4000;

/** @typedef {{ app: string, current: string, versions: Version[] }} Versions */

/** As of the last answer. */
const known = signal(/** @type {Versions} */ ({ app: "", current: "", versions: [] }));
let askedMs = Number.NEGATIVE_INFINITY;

/**
 * The version of the tree as it is now, "" before it is known; and for administrators those that new sessions get.
 *
 * @param {string} app @returns {Versions}
 */
export function useVersions(app) {
  usePolling(
    async (signal) => {
      // Another part of the page may have asked just now.
      if (known.value.app === app && performance.now() - askedMs < LOOK_MS / 2) return;
      known.value = { app, ...(await (me.value?.isAdmin ? readAll(app, signal) : readCurrent(app, signal))) };
      askedMs = performance.now();
    },
    LOOK_MS,
    [app],
  );
  return known.value.app === app ? known.value : { app, current: "", versions: [] };
}

/**
 * The version of which something has to be read: another one as soon as an update has changed the tree since it was.
 *
 * @param {string} current of the tree as it is now @param {string | undefined} shown of the tree that is shown
 */
export function useWanted(current, shown) {
  const [wanted, setWanted] = useState("");
  useEffect(() => {
    if (current && shown && shown !== current) setWanted(current);
  }, [current, shown]);
  return wanted;
}

/** @param {string} app @param {AbortSignal} signal */
async function readAll(app, signal) {
  /** @type {{ versions: Version[] }} */
  const { versions } = await ask(["apps", app, "versions"], { signal });
  const current = versions.find((version) => version.state === "current")?.id ?? "";
  return { current, versions: versions.filter((version) => version.part > 0) };
}

/** @param {string} app @param {AbortSignal} signal */
async function readCurrent(app, signal) {
  const { agents } = await ask(["apps", app, "agents"], { query: { depth: 0, limit: 1 }, signal });
  return { current: agents[0]?.version ?? "", versions: [] };
}
