/** One agent: its definition, whether it lives, and a drawing of it if it is a workflow or a graph. */
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { actorsByAgent, living, readActors, timesActivated } from "./actors.js";
import { useAnswer } from "./answer.js";
import { ask, me } from "./api.js";
import { Drawing } from "./drawing.js";
import { count, megabytes } from "./format.js";
import { runningNodes } from "./log.js";
import { go, place } from "./place.js";
import { usePolling } from "./polling.js";
import { useVersions, useWanted } from "./versions.js";
import { Way } from "./way.js";

/** @import { Agent, EdgeReason } from "./types.js" */
/** @import { OpenSession } from "./session.js" */

const LOOK_MS = 3000;

/** @param {{ app: string, name: string, session: OpenSession | null }} props */
export function AgentView({ app, name, session }) {
  const [agent, setAgent] = useState(/** @type {Agent | null} */ (null));
  const [wrong, setWrong] = useState("");
  const { current } = useVersions(app);
  const wanted = useWanted(current, agent?.version);
  useEffect(() => {
    const ending = new AbortController();
    if (agent?.name !== name) setAgent(null);
    ask(["apps", app, "agents"], { query: { under: name, depth: 1, limit: 200 }, signal: ending.signal }).then(
      (found) => {
        setAgent(found.agents[0]);
        setWrong("");
      },
      (error) => ending.signal.aborted || setWrong(error.message),
    );
    return () => ending.abort();
  }, [app, name, wanted]);
  usePolling((ending) => readActors(app, ending), LOOK_MS, [app]);
  const events = session?.events.value ?? [];
  const turnId = place.value.turn ?? events.at(-1)?.invocationId;
  const turn = session?.turns.value.find((each) => each.invocationId === turnId);
  const isGraph = agent?.kind === "graph";
  const { answer } = useAnswer(
    (signal) => (session && turn && isGraph ? session.ask(session.path("turns", turn.invocationId, "edges"), { signal }) : null),
    [turn?.invocationId, turn?.lastSeq, turn?.state, isGraph],
  );
  /** @type {EdgeReason[]} */
  const reasons = (answer?.edges ?? []).filter((/** @type {EdgeReason} */ reason) => reason.graph === name);
  const inside = events.filter((event) => event.invocationId === turnId);
  const running = turn?.state === "running" ? runningNodes(inside, reasons).filter(({ graph }) => graph === name) : [];
  if (wrong) return html`<p class="error">${wrong}</p>`;
  if (!agent) return html`<p class="none">…</p>`;
  const known = actorsByAgent.value.get(agent.name);
  const [actors, activated] = [living(known), timesActivated(known)];
  /** @param {string} other */
  const link = (other) =>
    html`<button key=${other} class="plain" onClick=${() => go({ tab: "agent", agent: other })}>${other}</button> `;
  return html`<h2>${agent.name} <small>${agent.kind}</small></h2>
    <p>${agent.description}</p>
    <dl>
      ${agent.model && html`<dt>model</dt><dd>${agent.model}</dd>`}
      ${agent.parent && html`<dt>below</dt><dd>${link(agent.parent)}</dd>`}
      ${agent.tools?.length ? html`<dt>tools</dt><dd>${agent.tools.join(", ")}</dd>` : ""}
      ${agent.agentTools?.length ? html`<dt>agents as tools</dt><dd>${agent.agentTools.map(link)}</dd>` : ""}
      ${agent.workers?.length ? html`<dt>workers</dt><dd>${agent.workers.map(link)}</dd>` : ""}
      ${agent.children?.length ? html`<dt>agents below</dt><dd>${agent.children.slice(0, 50).map((child) => link(child.name))}${agent.children.length > 50 ? "…" : ""}</dd>` : ""}
    </dl>
    <${Drawing} agent=${agent} events=${events} reasons=${reasons} running=${new Set(running.map(({ node }) => node))} />
    <${Way} reasons=${reasons} />
    ${
      me.value?.isAdmin
        ? html`<h2>${actors.length ? "Lives" : "Has no actor now"}</h2>
          <p class="note">${activated ? `Activated ${count(activated)} ${activated === 1 ? "time" : "times"} since its Runner was started.` : "Not activated since its Runner was started."}</p>
          ${actors.map(
            (
              actor,
            ) => html`<dl key=${`${actor.name} ${actor.pid}`} class="actor"><dt>process</dt><dd>${actor.pid} <small>${actor.name}</small></dd>
              ${actor.agent !== agent.name && html`<dt>actor</dt><dd>${actor.agent}</dd>`}
              ${actor.node && html`<dt>node</dt><dd>${actor.node}</dd>`}
              <dt>memory</dt><dd>${megabytes(actor.memoryBytes)} <small>of its process</small></dd>
              ${Object.entries(actor.counts).map(([key, value]) => html`<dt key=${key}>${key}</dt><dd>${count(value)}</dd>`)}</dl>`,
          )}`
        : ""
    }`;
}
