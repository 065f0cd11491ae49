/** Sums of what was used: pure functions. */

/** @import { UsageSums } from "./types.js" */

/**
 * Those that cost most first, then those that used most tokens; days from the newest on.
 *
 * @param {[string, UsageSums][]} rows @param {boolean} areDays
 */
export function bySize(rows, areDays) {
  /** @param {UsageSums} sums */
  const tokens = (sums) => sums.inputTokens + sums.outputTokens + sums.reasoningTokens;
  return [...rows].sort(([one, a], [other, b]) =>
    areDays
      ? other.localeCompare(one)
      : (b.money ?? 0) - (a.money ?? 0) || tokens(b) - tokens(a) || b.llmCalls - a.llmCalls || one.localeCompare(other),
  );
}
