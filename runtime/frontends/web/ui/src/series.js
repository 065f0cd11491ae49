/** Figures of a deployment over time. */

/**
 * @typedef {{ transport: string, made: number, accepted: number, reconnects: number, unreached?: { peer: string, reason: string }[] }} Connections
 * @typedef {{ actor: string, pid: number, memory_bytes?: number, counts: Record<string, number>, parts?: Figures[], host_limit?: string,
 *   connections?: Connections | null }} Figures
 * @typedef {{ session: Figures, runner: Figures, processes: Record<string, { pid: number, agents: string[], node: string, memory_bytes: number, connections?: Connections | null }>,
 *   models: Record<string, Record<string, number>>, limiter: Figures | null, mcp: Record<string, Figures> }} Statistics
 * @typedef {{ atS: number, counts: Record<string, number>, shards?: Record<string, number>, models?: Record<string, Record<string, number>> }} Sample
 */

/** @typedef {(sample: Sample) => number | undefined} Figure */

/** The value of a figure at each sample. @param {Sample[]} samples @param {Figure} of */
export const values = (samples, of) => samples.map((sample) => of(sample) ?? 0);

/** How much a figure that only grows has grown in a second, at each sample but the first. @param {Sample[]} samples @param {Figure} of */
export function rates(samples, of) {
  const all = values(samples, of);
  // An actor that was started again counts anew.
  return all.slice(1).map((value, index) => {
    const [before, after] = [samples[index], samples[index + 1]];
    const seconds = before && after ? after.atS - before.atS : 0;
    return seconds > 0 ? Math.max(0, value - (all[index] ?? 0)) / seconds : 0;
  });
}

/** Between samples so much further apart than most are, nothing is known. */
const GAP = 5;
const GAP_S = 20;

/**
 * Where a line has to be broken, since the deployment or the server did not answer in between.
 *
 * @param {number[]} times in seconds @returns {number[][]} the places of the values of each piece
 */
export function pieces(times) {
  const steps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  const usual = [...steps].sort((one, other) => one - other)[Math.floor(steps.length / 2)] ?? 0;
  const gap = Math.max(GAP_S, GAP * usual);
  /** @type {number[][]} */
  const found = [];
  times.forEach((_, index) => {
    if (index === 0 || (steps[index - 1] ?? 0) > gap) found.push([]);
    found.at(-1)?.push(index);
  });
  return found;
}

/** Each actor of a kind: one alone, or those that share the sessions. @param {Figures} figures */
export const partsOf = (figures) => (figures.parts?.length ? figures.parts : [figures]);
