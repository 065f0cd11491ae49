/** What the service answers to a question that a view asks when it is shown, and again when its keys change. */
import { useEffect, useState } from "preact/hooks";

/**
 * @template T
 * @param {(signal: AbortSignal) => Promise<T> | null} question null asks nothing
 * @param {unknown[]} keys
 * @returns {{ answer: T | null, wrong: string }} what was answered last, as long as the first key stays; and what is wrong
 */
export function useAnswer(question, keys) {
  const [found, setFound] = useState(
    /** @type {{ of: unknown, answer: T | null, wrong: string }} */ ({ of: null, answer: null, wrong: "" }),
  );
  useEffect(() => {
    const ending = new AbortController();
    question(ending.signal)?.then(
      (answer) => ending.signal.aborted || setFound({ of: keys[0], answer, wrong: "" }),
      (error) => ending.signal.aborted || setFound({ of: keys[0], answer: null, wrong: String(error.message) }),
    );
    return () => ending.abort();
  }, keys);
  return found.of === keys[0] ? found : { answer: null, wrong: "" };
}
