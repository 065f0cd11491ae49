/** The right pane: the event that was clicked, the turn and why it went there, the state and its changes, an agent. */
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { AgentView } from "./agent.js";
import { me } from "./api.js";
import { Budgets } from "./budgets.js";
import { brief, count, duration, fullTime, MARKS, pretty, tokens } from "./format.js";
import { LogPanel, StepLines } from "./lines.js";
import { isResult, stateChanges, textOf, USER, usageByAgent, usageByTurn } from "./log.js";
import { Artifact } from "./parts.js";
import { go, place } from "./place.js";
import { RequestsPanel } from "./requests.js";

/** @import { Event, PassedOver, Reason, Turn } from "./types.js" */
/** @import { OpenSession } from "./session.js" */

const TABS = {
  event: "Event",
  turn: "Turn",
  state: "State",
  usage: "Usage",
  artifacts: "Artifacts",
  requests: "Requests",
  log: "Log",
  agent: "Agent",
};

/** What only administrators may see. */
const OPERATORS = ["requests", "log"];

/** The tab of closed details: in a narrow window they take room from the conversation. */
const CLOSED = "none";
const isNarrow = matchMedia("(max-width: 900px)");

/** @param {{ session: OpenSession | null, app: string }} props */
export function Details({ session, app }) {
  const tab = session ? (place.value.tab ?? (isNarrow.matches ? CLOSED : "turn")) : "agent";
  const tabs = Object.entries(TABS).filter(
    ([name]) => (session || name === "agent") && (me.value?.isAdmin || !OPERATORS.includes(name)),
  );
  return html`<aside class="details" aria-label="Details">
    <div class="tabs" role="tablist" aria-label="Details">
      ${tabs.map(
        ([name, title]) =>
          html`<button key=${name} role="tab" id=${`tab-${name}`} aria-selected=${name === tab} aria-controls=${tab === CLOSED ? undefined : "panel"}
            onClick=${() => go({ tab: name === tab && session && isNarrow.matches ? CLOSED : name }, true)}>${title}</button>`,
      )}
    </div>
    ${
      tab !== CLOSED &&
      html`<div class="panel" role="tabpanel" id="panel" aria-labelledby=${`tab-${tab}`} tabindex="0">
      ${tab === "agent" ? html`<${AgentView} app=${app} name=${place.value.agent ?? ""} session=${session} />` : session && html`<${Panel} session=${session} tab=${tab} />`}
    </div>`
    }
  </aside>`;
}

/** @param {{ session: OpenSession, tab: string }} props */
function Panel({ session, tab }) {
  const events = session.events.value;
  const turnId = place.value.turn ?? session.events.value.at(-1)?.invocationId ?? "";
  const turn = session.turns.value.find((each) => each.invocationId === turnId);
  if (tab === "event") return html`<${EventPanel} events=${events} session=${session} />`;
  if (tab === "state") return html`<${StatePanel} session=${session} />`;
  if (tab === "usage") return html`<${UsagePanel} session=${session} />`;
  if (tab === "artifacts") return html`<${ArtifactsPanel} session=${session} />`;
  if (!turn) return html`<p class="none">There is no turn yet.</p>`;
  if (tab === "requests") return html`<${RequestsPanel} session=${session} turn=${turn} key=${turnId} />`;
  if (tab === "log") return html`<${LogPanel} session=${session} turn=${turnId} />`;
  return html`<${TurnPanel} session=${session} turn=${turn} />`;
}

/** @param {{ events: Event[], session: OpenSession }} props */
function EventPanel({ events, session }) {
  const seq = Number(place.value.seq ?? 0);
  const event = events.find((each) => each.seq === seq);
  if (!event) return html`<p class="none">Click an event to see it here.</p>`;
  const index = events.indexOf(event);
  const before = events[index - 1];
  const after = events[index + 1];
  const { errorTraceback, ...told } = event;
  const traceback = errorTraceback ?? event.customMetadata?.supervision?.error_traceback;
  return html`<div class="buttons">
      <button disabled=${!before} onClick=${() => before && go({ seq: String(before.seq) }, true)} aria-label="Event before">↑</button>
      <button disabled=${!after} onClick=${() => after && go({ seq: String(after.seq) }, true)} aria-label="Event after">↓</button>
      <button class="plain" onClick=${() => go({ tab: "agent", agent: event.author })}>${event.author}</button>
      ${me.value?.isAdmin && event.author !== USER && event.content && html`<button class="plain" onClick=${() => go({ tab: "requests", turn: event.invocationId })}>what its model was asked</button>`}
    </div>
    ${traceback && html`<h2>Traceback</h2><pre class="traceback">${traceback}</pre>`}
    ${me.value?.isAdmin && html`<${StepLines} session=${session} event=${event} />`}
    <pre class="json">${pretty(told)}</pre>`;
}

/** @param {{ session: OpenSession }} props */
function StatePanel({ session }) {
  const changes = stateChanges(session.events.value).reverse().slice(0, 200);
  const isWhole = !session.hasEarlier.value;
  return html`<h2>Now</h2>
    <pre class="json">${pretty(session.session.value?.state ?? {})}</pre>
    <h2>Changes, the newest first</h2>
    ${!changes.length && html`<p class="none">No event that is loaded has changed the state.</p>`}
    ${changes.map(
      ({
        event,
        changes: made,
      }) => html`<div key=${event.seq} class=${`change ${String(event.seq) === place.value.seq ? "here" : ""}`}>
        <button class="plain" onClick=${() => go({ seq: String(event.seq), turn: event.invocationId })}>#${event.seq} ${event.author}</button>
        ${made.map(
          ({ key, before, after, isKnown }) => html`<div key=${key} class="diff"><code>${key}</code>
            ${isKnown ? html`<del>${before === null ? "∅" : brief(before, 300)}</del>` : !isWhole && html`<i title="what was there before is in no event that is loaded">…</i>`}
            ${after === null ? html`<del>deleted</del>` : html`<ins>${brief(after, 300)}</ins>`}</div>`,
        )}
      </div>`,
    )}`;
}

/** @param {{ session: OpenSession }} props */
function UsagePanel({ session }) {
  const all = session.events.value;
  const { turn } = place.value;
  const rows = usageByAgent(turn ? all.filter((event) => event.invocationId === turn) : all);
  const scope = turn ? "this turn" : session.hasEarlier.value ? `events from #${all[0]?.seq} on` : "this session";
  return html`<h2>By agent, of ${scope}</h2>
    ${turn && html`<button class="plain" onClick=${() => go({ turn: undefined }, true)}>show the whole session</button>`}
    <table><thead><tr><th>agent</th><th>answers</th><th>in</th><th>cached</th><th>out</th><th>tools</th></tr></thead>
    <tbody>${rows.map(
      (
        row,
      ) => html`<tr key=${row.agent}><td><button class="plain" onClick=${() => go({ tab: "agent", agent: row.agent })}>${row.agent}</button></td>
      <td>${count(row.answers)}</td><td>${count(row.input)}</td><td>${count(row.cached)}</td><td>${count(row.output)}</td><td>${count(row.tools)}</td></tr>`,
    )}</tbody></table>
    ${
      !turn &&
      html`<h2>By turn, those that used most first</h2>
      <table><thead><tr><th>turn</th><th>in</th><th>out</th></tr></thead><tbody>${usageByTurn(all)
        .slice(0, 20)
        .map(
          (
            row,
          ) => html`<tr key=${row.turn}><td><button class="plain" onClick=${() => go({ turn: row.turn })}>from #${row.seq}</button></td>
            <td>${count(row.input)}</td><td>${count(row.output)}</td></tr>`,
        )}</tbody></table>`
    }
    <p class="note">Answers and tokens as the models' services counted them; answers without a count are left out.</p>`;
}

/** @param {{ session: OpenSession }} props */
function ArtifactsPanel({ session }) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  const open = place.value.artifact;
  const saved = session.events.value.reduce((sum, event) => sum + Object.keys(event.actions?.artifactDelta ?? {}).length, 0);
  useEffect(() => {
    session.ask(session.path("artifacts")).then(
      (found) => setNames(found.names),
      () => setNames([]),
    );
  }, [session, saved]);
  if (!names.length) return html`<p class="none">There are no artifacts.</p>`;
  return html`<ul class="names">${names.map(
    (
      name,
    ) => html`<li key=${name}><button class="plain" aria-expanded=${open === name} onClick=${() => go({ artifact: open === name ? undefined : name }, true)}>${name}</button>
      ${open === name && html`<${Artifact} app=${session.app} user=${session.user} session=${session.id} name=${name} />`}</li>`,
  )}</ul>`;
}

/** @param {{ session: OpenSession, turn: Turn }} props */
function TurnPanel({ session, turn }) {
  const inside = session.events.value.filter((event) => event.invocationId === turn.invocationId);
  const message = inside.find((event) => event.author === USER && textOf(event));
  const result = inside.findLast(isResult);
  const used = usageByAgent(inside);
  /** @param {"answers" | "tools" | "input" | "output"} name */
  const sum = (name) => used.reduce((all, row) => all + row[name], 0);
  const counts = { promptTokenCount: sum("input"), candidatesTokenCount: sum("output") };
  const took = turn.endedS && turn.begunS ? duration(turn.endedS - turn.begunS) : "";
  return html`<h2><span class=${`mark ${turn.state}`} aria-hidden="true">${MARKS[turn.state]}</span> ${turn.state}</h2>
    ${message && html`<p>${brief(textOf(message), 400)}</p>`}
    <dl>
      <dt>agent</dt><dd><button class="plain" onClick=${() => go({ tab: "agent", agent: turn.agent })}>${turn.agent}</button></dd>
      <dt>events</dt><dd>#${turn.firstSeq} to #${turn.lastSeq}</dd>
      <dt>began</dt><dd>${fullTime(turn.begunS)}</dd>
      ${took && html`<dt>took</dt><dd>${took}</dd>`}
      ${sum("answers") > 0 && html`<dt>used</dt><dd>${tokens(counts)} in ${sum("answers") === 1 ? "1 answer" : `${count(sum("answers"))} answers`}</dd>`}
      ${sum("tools") > 0 && html`<dt>tools</dt><dd>${count(sum("tools"))}</dd>`}
      ${result?.output !== undefined && html`<dt>result</dt><dd>${brief(result.output, 400)}</dd>`}
      <dt>turn</dt><dd><code>${turn.invocationId}</code></dd>
      ${(turn.epoch ?? 0) > 1 && html`<dt>epoch</dt><dd>${turn.epoch} <small>once more after each pause and each loss</small></dd>`}
      ${turn.error && html`<dt>error</dt><dd class="error">${turn.error}</dd>`}
    </dl>
    <${Budgets} session=${session} turn=${turn} key=${turn.invocationId} />
    <${Why} session=${session} turn=${turn} />`;
}

/** Why each message of the turn went where it did, as the service tells it. @param {{ session: OpenSession, turn: Turn }} props */
function Why({ session, turn }) {
  const [reasons, setReasons] = useState(/** @type {Reason[]} */ ([]));
  useEffect(() => {
    const ending = new AbortController();
    session.ask(session.path("turns", turn.invocationId, "reasons"), { signal: ending.signal }).then(
      (found) => setReasons(found.reasons),
      () => {},
    );
    return () => ending.abort();
  }, [session, turn.invocationId, turn.state]);
  if (!reasons.length) return null;
  /** @param {string} name */
  const link = (name) => html`<button class="plain" onClick=${() => go({ tab: "agent", agent: name })}><b>${name}</b></button>`;
  return html`<h2>Why here</h2>
    ${reasons.map(
      (reason) => html`<div key=${reason.seq} class="why">
        <p><button class="plain" onClick=${() => go({ seq: String(reason.seq) })}>#${reason.seq}</button> went to ${link(reason.agent)}: ${BECAUSE[reason.because]}${reason.callId ? html` <code>${reason.callId}</code>` : ""}.</p>
        ${reason.passedOver?.map((passed) => html`<p key=${passed.agent}>${passed.agent} was passed over: ${PASSED[passed.because](passed.by === passed.agent ? "it" : (passed.by ?? ""))}.</p>`)}
      </div>`,
    )}`;
}

/** @type {Record<Reason["because"], string>} */
const BECAUSE = {
  answers: "the message answers its call",
  awaited: "its run waited for the user's words",
  addressed: "the message is addressed to it",
  flow: "the message began a flow",
  spoke: "it spoke last of those that may keep the conversation",
  root: "no agent that may keep the conversation has spoken, so it is the root",
};

/** @type {Record<PassedOver["because"], (by: string) => string>} */
const PASSED = {
  unknown: () => "it is no longer in the tree",
  kind: (by) => `${by} is no LLM agent`,
  disallowed: (by) => `${by} hands back to no parent`,
  beside: () => "it is a tool of others",
};
