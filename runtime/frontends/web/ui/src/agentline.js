/** An agent as a line of the tree: what it is, where it lives, how often it was activated. */
import { html } from "htm/preact";
import { actorsByAgent, living, timesActivated } from "./actors.js";
import { count, megabytes } from "./format.js";
import { go } from "./place.js";

/** @import { Actor, Agent } from "./types.js" */

/** Where an actor lives. @param {Actor} actor */
const whereOf = (actor) =>
  [`pid ${actor.pid}`, actor.node ? `on ${actor.node}` : "", actor.memoryBytes ? megabytes(actor.memoryBytes) : ""]
    .filter(Boolean)
    .join(", ");

/** @param {{ agent: Agent }} props */
export function AgentLine({ agent }) {
  const known = actorsByAgent.value.get(agent.name);
  const [actors, activated] = [living(known), timesActivated(known)];
  const runs = actors.reduce((sum, actor) => sum + (actor.counts.running ?? 0), 0);
  const about = [
    agent.kind,
    agent.model,
    agent.hidden ? `${count(agent.hidden)} below` : "",
    ...actors.map(whereOf),
    runs ? `${count(runs)} running` : "",
    activated ? `activated ${count(activated)}×` : "",
  ];
  return html`<button class="plain agent-line" tabindex="-1" onClick=${() => go({ agent: agent.name, tab: "agent" })}>
    <span class=${`dot ${actors.length ? "live" : ""} ${runs ? "busy" : ""}`} title=${actors.length ? `lives, ${count(runs)} runs under way` : "no actor now"}></span>
    <b>${agent.name}</b> <small>${about.filter(Boolean).join(" · ")}</small>
    <small class="about">${agent.description}</small>
  </button>`;
}
