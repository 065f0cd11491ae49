/** The turns of a case of an evaluation: what was said, what was expected, what came, and the scores of each. */
import { html } from "htm/preact";
import { follow, href } from "./place.js";

/** @import { CaseTurn } from "./types.js" */
/** @import { Place } from "./place.js" */

/** @param {{ turns: CaseTurn[], link: Place, thresholds: Record<string, number> }} props link: to the conversation */
export function CaseTurns({ turns, link, thresholds }) {
  return html`<ol class="case-turns" aria-label="Turns of the case">${turns.map((turn, index) => {
    const to = { ...link, turn: turn.invocationId };
    return html`<li key=${turn.invocationId}>
      <p><a href=${href(to)} onClick=${follow(to)}>turn ${index + 1}</a> <b>${turn.message}</b>
        ${Object.entries(turn.scores ?? {}).map(([metric, score]) => html`<${Score} key=${metric} metric=${metric} score=${score} least=${thresholds[metric] ?? 0} />`)}</p>
      <${Expected} what="answer" expected=${turn.expected ?? ""} came=${turn.answer ?? ""} />
      <${Expected} what="tools" expected=${(turn.expectedTools ?? []).join("\n")} came=${(turn.tools ?? []).join("\n")} />
    </li>`;
  })}</ol>`;
}

/** What was expected beside what came; nothing where both are nothing. @param {{ what: string, expected: string, came: string }} props */
function Expected({ what, expected, came }) {
  if (!expected && !came) return null;
  return html`<dl class=${`expected ${expected === came ? "" : "differs"}`}>
    <dt>expected ${what}</dt><dd>${expected || "–"}</dd><dt>${what}</dt><dd>${came || "–"}</dd></dl>`;
}

/** @param {{ metric: string, score: number | undefined, least: number }} props */
export function Score({ metric, score, least }) {
  if (score === undefined) return null;
  const passes = score >= least;
  return html`<span class=${`score ${passes ? "passes" : "fails"}`}>${metric} <b>${score.toFixed(2)}</b> <span class="unseen">${passes ? "passes" : "does not pass"}</span></span>`;
}
