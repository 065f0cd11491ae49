/** How a deployment does: small charts over the last minutes, and what its actors count. For administrators. */
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { ask } from "./api.js";
import { count, duration } from "./format.js";
import { usePolling } from "./polling.js";
import { rates, values } from "./series.js";

/** @import { Figures, Sample } from "./series.js" */

const LOOK_MS = 2000;
const KEPT = 150;
const WIDTH = 220;
const HEIGHT = 44;

/** @param {{ app: string }} props */
export function FiguresView({ app }) {
  const [samples, setSamples] = useState(/** @type {Sample[]} */ ([]));
  usePolling(
    async (signal) => {
      const figures = await ask(["apps", app, "statistics"], { signal });
      setSamples((before) => [...before, { at: Date.now(), figures }].slice(-KEPT));
    },
    LOOK_MS,
    [app],
  );
  const now = samples.at(-1)?.figures;
  if (!now) return html`<section class="figures" aria-label="Figures"><p class="none">…</p></section>`;
  const span = ((samples.at(-1)?.at ?? 0) - (samples[0]?.at ?? 0)) / 1000;
  const models = Object.entries(now.models);
  const processes = Object.entries(now.processes);
  const connected = [now.session, now.runner].flatMap(parts).filter((each) => each.connections);
  return html`<section class="figures" aria-label="Figures">
    <h1>Figures</h1>
    <p class="note">Over the last ${duration(span)}, as long as this view is open.</p>
    <div class="charts">
      <${Chart} label="turns under way" values=${values(samples, (each) => each.runner.counts.running)} />
      <${Chart} label="turns that wait" values=${values(samples, (each) => each.runner.counts.waiting)} />
      <${Chart} label="turns a second" values=${rates(samples, (each) => each.runner.counts.turns)} digits=${2} />
      <${Chart} label="events a second" values=${rates(samples, (each) => each.session.counts.events)} digits=${2} />
      <${Chart} label="live agents" values=${samples.map((each) => Object.keys(each.figures.agents).length)} />
      <${Chart} label="processes with agents" values=${values(samples, (each) => each.runner.counts.hosts)} />
      <${Chart} label="spare processes" values=${values(samples, (each) => each.runner.counts.spares)} />
    </div>
    ${now.runner.host_limit && html`<p class="note">At most ${count(now.runner.counts.max_hosts)} processes with agents: ${now.runner.host_limit}.</p>`}
    <${Counts} title="Session actors" figures=${parts(now.session)} />
    <${Counts} title="Runners" figures=${parts(now.runner)} />
    ${models.length > 0 && html`<${Counts} title="Limits of models" figures=${models.map(([actor, counts]) => ({ actor, pid: 0, counts }))} />`}
    ${Object.keys(now.mcp).length > 0 && html`<${Counts} title="MCP servers" figures=${Object.entries(now.mcp).map(([actor, each]) => ({ ...each, actor }))} />`}
    ${
      connected.length > 0 &&
      html`<h2>Connections</h2><table><thead><tr><th>actor</th><th>transport</th><th>made</th><th>accepted</th><th>made again</th><th>not reached</th></tr></thead>
        <tbody>${connected.map(
          (
            each,
          ) => html`<tr key=${each.actor}><td>${each.actor}</td><td>${each.connections?.transport}</td><td>${count(each.connections?.made)}</td>
            <td>${count(each.connections?.accepted)}</td><td>${count(each.connections?.reconnects)}</td><td>${each.connections?.unreached?.map((peer) => `${peer.peer}: ${peer.reason}`).join("; ")}</td></tr>`,
        )}</tbody></table>`
    }
    ${
      processes.length > 0 &&
      html`<h2>Processes with agents</h2><table><thead><tr><th>process</th><th>pid</th><th>agents</th></tr></thead>
        <tbody>${processes.slice(0, 200).map(([name, each]) => html`<tr key=${name}><td>${name}</td><td>${each.pid}</td><td>${shortened(each.agents)}</td></tr>`)}</tbody></table>`
    }
  </section>`;
}

/** @param {Figures} figures */
const parts = (figures) => (figures.parts?.length ? figures.parts : [figures]);

/** @param {string[]} names */
const shortened = (names) => `${names.slice(0, 8).join(", ")}${names.length > 8 ? ` and ${count(names.length - 8)} more` : ""}`;

/** A line over time, and its newest value. @param {{ label: string, values: number[], digits?: number }} props */
function Chart({ label, values, digits = 0 }) {
  const most = Math.max(1, ...values);
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map(
    (value, index) => `${(index * step).toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`,
  );
  const newest = (values.at(-1) ?? 0).toFixed(digits);
  return html`<figure class="chart"><figcaption>${label} <b>${newest}</b></figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${label}: ${newest} now, ${most.toFixed(digits)} at most`}>
      <polyline points=${(points.length > 1 ? points : [points[0] ?? "0,0", `${WIDTH},${points[0]?.split(",")[1] ?? 0}`]).join(" ")} /></svg></figure>`;
}

/** What actors count, a row for each figure. @param {{ title: string, figures: Figures[] }} props */
function Counts({ title, figures }) {
  const names = [...new Set(figures.flatMap((each) => Object.keys(each.counts)))];
  return html`<h2>${title}</h2><div class="scrolled" tabindex="0" role="region" aria-label=${title}><table><thead><tr><th></th>${figures.map((each) => html`<th key=${each.actor}>${each.actor}${each.pid ? html` <small>pid ${each.pid}</small>` : ""}</th>`)}</tr></thead>
    <tbody>${names.map((name) => html`<tr key=${name}><th scope="row">${name.replaceAll("_", " ")}</th>${figures.map((each) => html`<td key=${each.actor}>${count(each.counts[name])}</td>`)}</tr>`)}</tbody></table></div>`;
}
