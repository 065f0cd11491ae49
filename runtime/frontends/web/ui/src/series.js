/** Figures of a deployment over time. */

/**
 * @typedef {{ actor: string, pid: number, counts: Record<string, number>, parts?: Figures[], host_limit?: string,
 *   connections?: { transport: string, made: number, accepted: number, reconnects: number, unreached?: { peer: string, reason: string }[] } | null }} Figures
 * @typedef {{ session: Figures, runner: Figures, agents: Record<string, Figures>, processes: Record<string, { pid: number, agents: string[] }>,
 *   models: Record<string, Record<string, number>>, limiter: Figures | null, mcp: Record<string, Figures> }} Statistics
 * @typedef {{ at: number, figures: Statistics }} Sample
 */

/** The value of a figure at each sample. @param {Sample[]} samples @param {(figures: Statistics) => number | undefined} of */
export const values = (samples, of) => samples.map((sample) => of(sample.figures) ?? 0);

/** How much a figure that only grows has grown in a second, at each sample but the first. @param {Sample[]} samples @param {(figures: Statistics) => number | undefined} of */
export function rates(samples, of) {
  const all = values(samples, of);
  // An actor that was started again counts anew.
  return all.slice(1).map((value, index) => {
    const [before, after] = [samples[index], samples[index + 1]];
    const seconds = before && after ? (after.at - before.at) / 1000 : 0;
    return seconds > 0 ? Math.max(0, value - (all[index] ?? 0)) / seconds : 0;
  });
}
