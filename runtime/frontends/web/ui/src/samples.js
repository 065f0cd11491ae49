/** Figures of deployments over the last minutes, as the server has sampled them, also before the page was opened. */
import { signal } from "@preact/signals";
import { ask } from "./api.js";

/** @import { Sample, Statistics } from "./series.js" */

const KEPT_S = 600;
const KEPT = 1000;

/** @typedef {{ app: string, samples: Sample[], now: Statistics | null }} Recent */

const known = signal(/** @type {Recent} */ ({ app: "", samples: [], now: null }));

/** Those of an app, the newest sample last. @param {string} app @returns {Recent} */
export const recentOf = (app) => (known.value.app === app ? known.value : { app, samples: [], now: null });

/** Ask for what has come since the last time. @param {string} app @param {AbortSignal} ending */
export async function readRecent(app, ending) {
  const after = recentOf(app).samples.at(-1)?.atS ?? 0;
  /** @type {{ samples: Sample[], now: Statistics }} */
  const found = await ask(["apps", app, "statistics", "recent"], { query: { after }, signal: ending });
  const samples = [...recentOf(app).samples, ...found.samples];
  const oldest = (samples.at(-1)?.atS ?? 0) - KEPT_S;
  known.value = { app, samples: samples.filter((sample) => sample.atS >= oldest).slice(-KEPT), now: found.now };
}
