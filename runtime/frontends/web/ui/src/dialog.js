/** Questions before something is done that cannot be undone. */
import { signal } from "@preact/signals";
import { html } from "htm/preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** @type {import("@preact/signals").Signal<{ question: string, verb: string, answer: (yes: boolean) => void } | null>} */
const asked = signal(/** @type {{ question: string, verb: string, answer: (yes: boolean) => void } | null} */ (null));

/** Ask a person. @param {string} question @param {string} verb on the button that agrees; "" only tells @returns {Promise<boolean>} */
export function confirmed(question, verb) {
  asked.value?.answer(false);
  return new Promise((resolve) => {
    asked.value = {
      question,
      verb,
      answer: (yes) => {
        asked.value = null;
        resolve(yes);
      },
    };
  });
}

/** Where questions are shown. */
export function Dialog() {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const now = asked.value;
  useLayoutEffect(() => {
    if (now && !element.current?.open) element.current?.showModal();
    if (!now) element.current?.close();
  }, [now]);
  return html`<dialog ref=${element} aria-label="Question" onClose=${() => asked.value?.answer(false)}>
    <p>${now?.question}</p>
    <div class="buttons">
      <button autofocus onClick=${() => now?.answer(false)}>${now?.verb ? "Cancel" : "Close"}</button>
      ${now?.verb && html`<button class="danger" onClick=${() => now.answer(true)}>${now.verb}</button>`}
    </div>
  </dialog>`;
}
