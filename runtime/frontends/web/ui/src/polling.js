/** Asks again and again while the page is seen. */
import { useEffect, useRef } from "preact/hooks";

/** Of its time, the part in which the service is asked at most: 1/n. */
const SHARE = 5;

/**
 * Do some work now, whenever a key changes, and again so often while the page is seen, but less often where it takes long.
 *
 * @param {(signal: AbortSignal) => Promise<unknown>} work
 * @param {number} everyMs
 * @param {unknown[]} keys
 */
export function usePolling(work, everyMs, keys) {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    const ending = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let next;
    const round = async () => {
      clearTimeout(next);
      const began = performance.now();
      try {
        if (!document.hidden) await latest.current(ending.signal);
      } catch (error) {
        if (!ending.signal.aborted) console.info(`the list is not up to date: ${error}`);
      }
      if (!ending.signal.aborted) next = setTimeout(round, Math.max(everyMs, (SHARE - 1) * (performance.now() - began)));
    };
    round();
    document.addEventListener("visibilitychange", round);
    return () => {
      ending.abort();
      clearTimeout(next);
      document.removeEventListener("visibilitychange", round);
    };
  }, keys);
}
