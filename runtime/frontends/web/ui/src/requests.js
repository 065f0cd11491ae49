/** What the models of a turn were asked, as far as it was recorded. For administrators. */
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { useAnswer } from "./answer.js";
import { me } from "./api.js";
import { duration, pretty, time, tokens } from "./format.js";
import { Opened, Parts } from "./parts.js";
import { go, place } from "./place.js";

/** @import { Event, ModelRequest, RecordedCall, Turn } from "./types.js" */
/** @import { OpenSession } from "./session.js" */

const MOST = 200;

/** @param {{ session: OpenSession, turn: Turn }} props */
export function RequestsPanel({ session, turn }) {
  const { answer, wrong } = useAnswer(
    (signal) =>
      me.value?.isAdmin
        ? session.ask(session.path("turns", turn.invocationId, "requests"), { signal, query: { limit: MOST } })
        : null,
    [turn.invocationId, turn.lastSeq, turn.state, me.value?.isAdmin],
  );
  if (!me.value?.isAdmin) return html`<p class="none">What models were asked is for administrators.</p>`;
  if (wrong) return html`<p class="error" role="alert">${wrong}</p>`;
  if (!answer) return html`<p class="none">…</p>`;
  /** @type {RecordedCall[]} */
  const calls = answer.calls;
  if (!calls.length) return html`<${NotRecorded} />`;
  const events = new Map(session.events.value.map((event) => [event.seq, event]));
  return html`<h2>${calls.length === MOST ? `The first ${MOST} model calls` : calls.length === 1 ? "1 model call" : `${calls.length} model calls`} of this turn</h2>
    ${calls.map((call) => html`<${ModelCall} key=${`${call.eventId} ${call.begunS}`} call=${call} event=${events.get(call.seq)} isHere=${String(call.seq) === place.value.seq} />`)}`;
}

/** Why there is nothing, and what would have to be set. */
function NotRecorded() {
  return html`<div class="none"><p>No model call of this turn was recorded.</p><p>Set <code>RAYGROVE_RECORD_REQUESTS=on</code> where the app is started, or a share of turns such as <code>0.1</code>. Turns that begin from then on are recorded, for <code>RAYGROVE_RECORD_REQUESTS_DAYS</code>, by default 30.</p></div>`;
}

/** What an agent did when it called: it was a node of a graph, or did a round of a flow. @param {Event} [event] */
function placeOf(event) {
  const { round, tasks } = event?.flow ?? {};
  const node = event?.nodeInfo?.path;
  return [node ? `as ${node}` : "", round ? `in round ${round} for ${(tasks ?? []).join(", ")}` : ""].filter(Boolean).join(" ");
}

/** @param {{ call: RecordedCall, event?: Event, isHere: boolean }} props */
function ModelCall({ call, event, isHere }) {
  const [isOpen, setIsOpen] = useState(isHere);
  // The last one that was opened is in the address.
  const toggle = () => {
    setIsOpen(!isOpen);
    if (call.seq && isOpen === isHere) go({ seq: isOpen ? undefined : String(call.seq) }, true);
  };
  const attempts = call.attempts ?? [];
  const model = attempts.at(-1)?.model || "a model";
  const facts = [
    placeOf(event),
    duration(call.endedS - call.begunS),
    tokens(call.usage),
    attempts.length > 1 ? `${attempts.length} attempts` : "",
    call.streamed ? "streamed" : "",
  ];
  return html`<section class=${`model-call ${isHere ? "here" : ""}`} aria-label=${`Model call of ${call.agent}`}>
    <button class="plain head" aria-expanded=${isOpen} onClick=${toggle}>
      ${isOpen ? "▾" : "▸"} <b>${call.agent}</b> asked ${model} <time>${time(call.begunS)}</time> <small>${facts.filter(Boolean).join(", ")}</small></button>
    <button class="plain" onClick=${() => go({ seq: String(call.seq), tab: "event" })}>#${call.seq}</button>
    ${call.error && html`<p class="error">failed: ${call.error}</p>`}
    ${
      isOpen &&
      html`${
        attempts.length > 0 &&
        html`<ol class="attempts" aria-label="Attempts">${attempts.map(
          (attempt) =>
            html`<li key=${attempt.begunS}>${attempt.model}${attempt.endpoint ? ` at ${attempt.endpoint}` : ""} <time>${time(attempt.begunS)}</time>${attempt.error ? html`<span class="error"> ${attempt.error}</span>` : ""}</li>`,
        )}</ol>`
      }
      ${
        call.request
          ? html`<${Request} request=${call.request} />`
          : html`<p class="none">Its request was not recorded: ${call.omitted}.</p>`
      }`
    }
  </section>`;
}

/** @param {{ request: ModelRequest }} props */
function Request({ request }) {
  const { system_instruction: instruction, ...config } = request.config ?? {};
  return html`${instruction && html`<h3>Instruction</h3><pre>${instruction}</pre>`}
    ${Object.keys(config).length > 0 && html`<h3>Configuration</h3><pre class="json">${pretty(config)}</pre>`}
    ${request.outputSchema && html`<${Opened} label="schema of the answer" value=${request.outputSchema} />`}
    ${
      request.tools &&
      request.tools.length > 0 &&
      html`<h3>Tools</h3>${request.tools.map((tool) => html`<${Opened} key=${tool.name} label=${html`<b>${tool.name}</b> ${tool.description}`} value=${tool.parameters ?? {}} />`)}`
    }
    <h3>Contents</h3>
    <ol class="contents">${(request.contents ?? []).map((content, index) => html`<li key=${index}><b>${content.role ?? "user"}</b><${Parts} parts=${content.parts} isPlain=${true} /></li>`)}</ol>`;
}
