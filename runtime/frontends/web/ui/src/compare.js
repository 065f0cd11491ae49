/** Two turns side by side: of one session, or of two sessions of a user, such as a fork and where it comes from. */
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { aligned } from "./aligned.js";
import { useAnswer } from "./answer.js";
import { brief, count, duration, hue, MARKS, money, pretty, time } from "./format.js";
import { USER } from "./log.js";
import { Parts } from "./parts.js";
import { go, place } from "./place.js";

/** @import { Event, Turn, UsageSums } from "./types.js" */
/** @import { OpenSession } from "./session.js" */
/** @typedef {{ turn: Turn, events: Event[], sums: UsageSums, currency: string }} Side */

const PAGE = 1000;
const TYPED_MS = 300;

/** @param {{ session: OpenSession }} props */
export function Compare({ session }) {
  const { turn = session.events.value.at(-1)?.invocationId ?? "", other = session.id, otherTurn = "" } = place.value;
  const turns = useAnswer(
    (signal) => session.ask(["apps", session.app, "sessions", other, "turns"], { signal, query: { limit: 200 } }),
    [other],
  );
  const left = useSide(session, session.id, turn);
  const right = useSide(session, other, otherTurn);
  /** @type {Turn[]} */
  const choice = (turns.answer?.turns ?? []).filter(
    (/** @type {Turn} */ each) => other !== session.id || each.invocationId !== turn,
  );
  return html`<div class="compare" tabindex="0" role="region" aria-label="Two turns side by side">
    <div class="filters">
      <${OtherSession} of=${session.id} />
      <select aria-label="The other turn" onChange=${(/** @type {InputEvent} */ event) => go({ otherTurn: /** @type {HTMLSelectElement} */ (event.target).value })}>
        <option value="">choose a turn…</option>
        ${choice.map((each) => html`<option key=${each.invocationId} value=${each.invocationId} selected=${each.invocationId === otherTurn}>${MARKS[each.state]} from #${each.firstSeq}, ${time(each.begunS)}</option>`)}
      </select>
    </div>
    ${turns.wrong && html`<p class="error" role="alert">${turns.wrong}</p>`}
    ${(left.wrong || right.wrong) && html`<p class="error" role="alert">${left.wrong || right.wrong}</p>`}
    ${left.answer && right.answer ? html`<${Both} left=${left.answer} right=${right.answer} />` : !otherTurn && html`<p class="none">Choose the turn to compare with.</p>`}
  </div>`;
}

/** The session of the other turn; the same by default. @param {{ of: string }} props */
function OtherSession({ of }) {
  const [typed, setTyped] = useState(place.value.other ?? "");
  useEffect(() => {
    const wait = setTimeout(() => {
      if (typed !== (place.value.other ?? "")) go({ other: typed.trim(), otherTurn: undefined }, true);
    }, TYPED_MS);
    return () => clearTimeout(wait);
  }, [typed]);
  return html`<input type="search" aria-label="The session of the other turn" placeholder=${`session: ${of}`} value=${typed} onInput=${(/** @type {InputEvent} */ event) => setTyped(/** @type {HTMLInputElement} */ (event.target).value)} />`;
}

/** A turn with its events and what it used. @param {OpenSession} session @param {string} id @param {string} turnId */
function useSide(session, id, turnId) {
  return useAnswer(
    (signal) => (turnId ? read(session, id, turnId, signal) : null),
    [`${id} ${turnId}`, session.turns.value.find((each) => each.invocationId === turnId)?.lastSeq],
  );
}

/** @param {OpenSession} session @param {string} id @param {string} turnId @param {AbortSignal} signal @returns {Promise<Side>} */
async function read(session, id, turnId, signal) {
  const path = ["apps", session.app, "sessions", id];
  const [{ turn }, usage] = await Promise.all([
    session.ask([...path, "turns", turnId], { signal }),
    session.ask(["apps", session.app, "usage"], { signal, query: { session: id, turn: turnId } }),
  ]);
  /** @type {Event[]} */
  const events = [];
  let after = turn.firstSeq - 1;
  for (;;) {
    const query = { after_seq: after, before_seq: turn.lastSeq + 1, limit: PAGE };
    const page = await session.ask([...path, "events"], { signal, query });
    events.push(...page.events.filter((/** @type {Event} */ event) => event.invocationId === turnId));
    after = page.events.at(-1)?.seq ?? 0;
    if (page.events.length < PAGE) return { turn, events, sums: usage.total, currency: usage.currency };
  }
}

/** @param {{ left: Side, right: Side }} props */
function Both({ left, right }) {
  const pairs = aligned(left.events, right.events);
  const same = pairs.filter((pair) => pair.isSame).length;
  /** @type {[string, (side: Side) => string][]} */
  const facts = [
    ["state", ({ turn }) => turn.state],
    ["agent", ({ turn }) => turn.agent ?? ""],
    ["took", ({ turn }) => (turn.endedS && turn.begunS ? duration(turn.endedS - turn.begunS) : "")],
    ["model calls", ({ sums }) => count(sums.llmCalls)],
    ["tools", ({ sums }) => count(sums.toolCalls)],
    ["tokens in", ({ sums }) => count(sums.inputTokens)],
    ["tokens out", ({ sums }) => count(sums.outputTokens + sums.reasoningTokens)],
    ...(left.currency
      ? [/** @type {[string, (side: Side) => string]} */ ([left.currency, ({ sums }) => money(sums.money)])]
      : []),
  ];
  return html`<table class="facts"><thead><tr><td></td><th scope="col">${left.turn.sessionId} #${left.turn.firstSeq}</th><th scope="col">${right.turn.sessionId} #${right.turn.firstSeq}</th></tr></thead>
    <tbody>${facts.map(([name, of]) => html`<tr key=${name} class=${of(left) === of(right) ? "" : "differs"}><th scope="row">${name}</th><td>${of(left)}</td><td>${of(right)}</td></tr>`)}</tbody></table>
    <p class="note">${count(same)} of ${count(pairs.length)} steps are the same.</p>
    <div class="pairs" role="list" aria-label="Steps">${pairs.map(
      (pair, index) => html`<div key=${index} role="listitem" class=${`pair ${pair.isSame ? "" : "differs"}`}>
        <${Step} event=${pair.left} side=${left} /><${Step} event=${pair.right} side=${right} /></div>`,
    )}</div>`;
}

/** @param {{ event: Event | undefined, side: Side }} props */
function Step({ event, side }) {
  if (!event) return html`<div class="step empty"></div>`;
  const { actions = {} } = event;
  const delta = Object.entries(actions.stateDelta ?? {});
  return html`<div class="step">
    <button class="plain" onClick=${() => go({ session: side.turn.sessionId, turn: event.invocationId, seq: String(event.seq), tab: "event", pane: undefined, other: undefined, otherTurn: undefined })}>#${event.seq}</button>${" "}
    <b class="author" style=${{ "--hue": hue(event.author) }}>${event.author}</b>
    <${Parts} parts=${event.content?.parts} isPlain=${event.author === USER} />
    ${actions.transferToAgent && html`<div class="transfer">→ ${actions.transferToAgent}</div>`}
    ${delta.length > 0 && html`<div class="delta">${delta.map(([key, value]) => html`<span key=${key}>${key} = ${brief(value, 60)}</span>`)}</div>`}
    ${event.output !== undefined && html`<pre>${pretty(event.output)}</pre>`}
    ${event.errorCode && html`<div class="error"><b>${event.errorCode}</b> ${event.errorMessage}</div>`}
  </div>`;
}
