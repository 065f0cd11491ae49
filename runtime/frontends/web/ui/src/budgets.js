/** How far the limits of a turn's budgets are used, and what happens where one is used up. For administrators. */
import { html } from "htm/preact";
import { useAnswer } from "./answer.js";
import { me } from "./api.js";
import { count, duration, money } from "./format.js";

/** @import { Turn, UsedBudget } from "./types.js" */
/** @import { OpenSession } from "./session.js" */

/** @param {{ session: OpenSession, turn: Turn }} props */
export function Budgets({ session, turn }) {
  const { answer, wrong } = useAnswer(
    (signal) => (me.value?.isAdmin ? session.ask(session.path("turns", turn.invocationId, "description"), { signal }) : null),
    [turn.invocationId, turn.lastSeq, turn.state, me.value?.isAdmin],
  );
  if (wrong) return html`<p class="error" role="alert">${wrong}</p>`;
  /** @type {UsedBudget[]} */
  const budgets = answer?.budgets ?? [];
  if (!budgets.length) return null;
  return html`<h2>Budgets</h2>
    <div class="scrolled" tabindex="0" role="region" aria-label="Budgets"><table class="sums">
      <thead><tr><th scope="col">of</th><th scope="col">what</th><th scope="col">used</th><th scope="col">limit</th><th scope="col">share</th><th scope="col">then</th></tr></thead>
      <tbody>${budgets.map((budget) => html`<${Limit} key=${`${budget.whose} ${budget.field}`} budget=${budget} currency=${answer.currency} />`)}</tbody>
    </table></div>
    <p class="note">Without what is under way.</p>`;
}

/** @param {{ budget: UsedBudget, currency: string }} props */
function Limit({ budget, currency }) {
  const { whose, field, used, limit } = budget;
  const [name, shown] = FIELDS[field] ?? [field, count];
  const share = limit ? used / limit : 1;
  return html`<tr class=${share >= 1 ? "full" : ""}><th scope="row">${whose}</th><td>${field === "money" ? currency : name}</td><td>${shown(used)}</td><td>${shown(limit)}</td>
    <td class="share"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.min(share, 1) * 100} height="8" /></svg>${Math.round(share * 100)} %</td>
    <td>${budget.model ? html`model <code>${budget.model}</code>` : THEN[budget.atLimit ?? "stop"]}</td></tr>`;
}

/** @type {Record<string, [string, (amount: number) => string]>} */
const FIELDS = {
  tokens: ["tokens", count],
  money: ["money", money],
  llm_calls: ["model calls", count],
  tool_calls: ["tool calls", count],
  seconds: ["time", duration],
};

/** @type {Record<NonNullable<UsedBudget["atLimit"]>, string>} */
const THEN = { stop: "the turn fails", ask: "a person is asked", wrap_up: "agents have to end" };
