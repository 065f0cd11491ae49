/** What was used: by user, model, day and agent, with money, and the turns that cost most. Users see their own only. */
import { html } from "htm/preact";
import { useAnswer } from "./answer.js";
import { ask, me } from "./api.js";
import { count, duration, money, time } from "./format.js";
import { go, place } from "./place.js";
import { bySize } from "./sums.js";

/** @import { UsageReport, UsageSums } from "./types.js" */

const BY = { user: "Users", agent: "Agents", model: "Models", day: "Days", turn: "Turns" };
const DAYS = { 1: "the last day", 7: "the last 7 days", 30: "the last 30 days", "": "all that is kept" };
const DAY_S = 86_400;
const MOST = 500;

/** @param {{ app: string }} props */
export function UsageView({ app }) {
  const isOwn = me.value?.userId != null;
  const { by = isOwn ? "agent" : "user", days = "" } = place.value;
  const key = `${by} ${days}`;
  const since = days ? Date.now() / 1000 - Number(days) * DAY_S : undefined;
  const { answer, wrong } = useAnswer((signal) => ask(["apps", app, "usage"], { query: { by, since }, signal }), [key, app]);
  const shown = Object.entries(BY).filter(([name]) => name !== "user" || !isOwn);
  return html`<section class="usage wide" aria-label="Usage">
    <h1>Usage</h1>
    <div class="filters">
      <span class="tabs" role="group" aria-label="By what">${shown.map(([name, title]) => html`<button key=${name} aria-pressed=${name === by} onClick=${() => go({ by: name })}>${title}</button>`)}</span>
      <select aria-label="Since when" onChange=${(/** @type {InputEvent} */ event) => go({ days: /** @type {HTMLSelectElement} */ (event.target).value })}>
        ${Object.entries(DAYS).map(([name, title]) => html`<option key=${name} value=${name} selected=${name === days}>${title}</option>`)}</select>
    </div>
    ${wrong ? html`<p class="error" role="alert">${wrong}</p>` : answer ? html`<${Report} report=${answer} by=${by} app=${app} />` : html`<p class="none">…</p>`}
  </section>`;
}

/** @param {{ report: UsageReport, by: string, app: string }} props */
function Report({ report, by, app }) {
  const { total, currency, unpriced = [] } = report;
  const rows = by === "turn" ? [] : bySize(Object.entries(report.groups), by === "day");
  const most = Math.max(
    0,
    ...rows.map(([, sums]) => weight(sums, currency)),
    ...(report.turns ?? []).map((turn) => weight(turn.sums, currency)),
  );
  return html`${rows.length > MOST && html`<p class="note">The first ${count(MOST)} of ${count(rows.length)}.</p>`}
    <div class="scrolled" tabindex="0" role="region" aria-label="What was used"><table class="sums">
      <thead><tr><th scope="col">${by}</th><th scope="col">calls</th><th scope="col">tools</th><th scope="col">in</th><th scope="col">cached</th><th scope="col">out</th><th scope="col">thought</th><th scope="col">time</th>${currency && html`<th scope="col">${currency}</th>`}<th scope="col"><span class="unseen">share</span></th></tr></thead>
      <tbody>
        <${Row} name=${html`<b>all</b>`} sums=${total} currency=${currency} most=${0} />
        ${rows.slice(0, MOST).map(([name, sums]) => html`<${Row} key=${name} name=${name || (by === "model" ? "without a model" : "–")} sums=${sums} currency=${currency} most=${most} />`)}
        ${
          by === "turn" &&
          (report.turns ?? []).map(
            (
              turn,
            ) => html`<${Row} key=${`${turn.userId} ${turn.sessionId} ${turn.invocationId}`} sums=${turn.sums} currency=${currency} most=${most}
              name=${html`<button class="plain" onClick=${() => go({ app, view: undefined, user: turn.userId, session: turn.sessionId, turn: turn.invocationId, tab: "usage", seq: undefined })}>${turn.userId} / ${turn.sessionId}</button> <time>${time(turn.begunS)}</time>`} />`,
          )
        }
      </tbody></table></div>
    ${!total.llmCalls && !total.toolCalls && html`<p class="none">Nothing was used.</p>`}
    ${currency && unpriced.length > 0 && html`<p class="note">Without a price: ${unpriced.map((name) => name || "a model without a name").join(", ")}.</p>`}
    ${!currency && html`<p class="note">There is no money, as no model has a price: <code>RAYGROVE_PRICES</code> or <code>Settings(prices=…)</code> gives them.</p>`}
    ${by === "turn" && html`<p class="note">The turns that cost most, a hundred of them at most; those without a price by their tokens.</p>`}`;
}

/** What rows are compared by. @param {UsageSums} sums @param {string} currency */
const weight = (sums, currency) => (currency ? (sums.money ?? 0) : sums.inputTokens + sums.outputTokens + sums.reasoningTokens);

/** @param {{ name: unknown, sums: UsageSums, currency: string, most: number }} props */
function Row({ name, sums, currency, most }) {
  const share = most ? weight(sums, currency) / most : 0;
  return html`<tr><th scope="row">${name}</th><td>${count(sums.llmCalls)}</td><td>${count(sums.toolCalls)}</td><td>${count(sums.inputTokens)}</td><td>${count(sums.cachedTokens)}</td>
    <td>${count(sums.outputTokens)}</td><td>${count(sums.reasoningTokens)}</td><td>${duration(sums.seconds)}</td>${currency && html`<td>${money(sums.money)}</td>`}
    <td class="share"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${share * 100} height="8" /></svg></td></tr>`;
}
