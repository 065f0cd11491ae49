/** The page: which app, which view, and what is open in it. */
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { ask, askMe, forgetToken, isWrongToken, keepToken, me, needsToken } from "./api.js";
import { BatchesView } from "./batches.js";
import { Chat } from "./chat.js";
import { Conversations } from "./conversations.js";
import { Details } from "./details.js";
import { Dialog } from "./dialog.js";
import { FiguresView } from "./figures.js";
import { Inbox } from "./inbox.js";
import { pendingCalls, readPending } from "./pending.js";
import { follow, go, href, place } from "./place.js";
import { usePolling } from "./polling.js";
import { OpenSession } from "./session.js";
import { Tree } from "./tree.js";
import { UsageView } from "./usage.js";

/** @import { App } from "./types.js" */

const LOOK_MS = 2000;
const VIEWS = {
  conversations: "Conversations",
  inbox: "Inbox",
  tree: "Agents",
  usage: "Usage",
  figures: "Figures",
  batches: "Batches",
};

/** What only administrators may see. */
const OPERATORS = ["figures", "batches"];

/** The whole page. */
export function Page() {
  const [apps, setApps] = useState(/** @type {App[] | null} */ (null));
  const [wrong, setWrong] = useState("");
  const isAsking = needsToken.value;
  useEffect(() => {
    if (isAsking) return;
    setWrong("");
    begin(setApps).catch((error) => setWrong(String(error.message)));
  }, [isAsking]);
  useEffect(() => {
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  if (isAsking) return html`<${TokenForm} />`;
  if (wrong)
    return html`<main class="alone"><p class="error" role="alert">${wrong}</p><button onClick=${() => location.reload()}>Try again</button></main>`;
  if (!apps || !me.value) return html`<main class="alone"><p class="none">Loading…</p></main>`;
  const app = place.value.app ?? "";
  if (app && !apps.some((each) => each.name === app)) {
    return html`<main class="alone"><p>No app ${app} is served here.</p>${apps.map((each) => html`<a key=${each.name} href=${href({ app: each.name })} onClick=${follow({ app: each.name })}>${each.name}</a> `)}</main>`;
  }
  return app ? html`<${AppPage} app=${app} apps=${apps} key=${app} />` : null;
}

/** @param {(apps: App[]) => void} onApps */
async function begin(onApps) {
  if (!(await askMe())) return;
  const { apps } = await ask(["apps"]);
  onApps(apps);
  if (!place.value.app && apps[0]) go({ app: apps[0].name }, true);
}

/** Keys that work everywhere. @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.key === "Escape" && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) target.blur();
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const to = { 1: "conversations", 2: "inbox", 3: "tree", 4: "usage", 5: "figures", 6: "batches" }[event.key];
  if (to && (me.value?.isAdmin || !OPERATORS.includes(to))) go({ view: to === "conversations" ? undefined : to });
  else if (event.key === "/") /** @type {HTMLElement | null} */ (document.getElementById("search"))?.focus();
  else if (event.key === "m") /** @type {HTMLElement | null} */ (document.querySelector(".composer textarea"))?.focus();
  else if (event.key === "t") go({ pane: place.value.pane === "timeline" ? undefined : "timeline" });
  else return;
  event.preventDefault();
}

/** Asks for a token. It stays in the tab. */
function TokenForm() {
  return html`<main class="alone"><form onSubmit=${(/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    keepToken(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("token")?.toString().trim() ?? "");
  }}>
    <h1>raygrove</h1>
    <label>Token of this server<input name="token" type="password" autocomplete="off" required autofocus /></label>
    <button>Open</button>
    ${isWrongToken.value && html`<p class="error" role="alert">This server does not know the token.</p>`}
    <p class="note">It is kept until this tab is closed.</p>
  </form></main>`;
}

/** Go over the list of conversations to the one that is open. @param {MouseEvent} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** @param {{ app: string, apps: App[] }} props */
function AppPage({ app, apps }) {
  const { view = "conversations", user, session: id } = place.value;
  const [session, setSession] = useState(/** @type {OpenSession | null} */ (null));
  usePolling((ending) => readPending(app, ending), LOOK_MS, [app]);
  useEffect(() => {
    if (!user || !id) {
      setSession(null);
      return;
    }
    const opened = new OpenSession(app, user, id);
    setSession(opened);
    return () => opened.close();
  }, [app, user, id]);
  useEffect(() => {
    document.title = [view === "conversations" ? id : VIEWS[/** @type {keyof VIEWS} */ (view)], app, "raygrove"]
      .filter(Boolean)
      .join(" · ");
  }, [view, id, app]);
  const waiting = pendingCalls.value;
  const views = Object.entries(VIEWS).filter(([name]) => me.value?.isAdmin || !OPERATORS.includes(name));
  const isRefused = OPERATORS.includes(view) && !me.value?.isAdmin;
  const here = waiting.filter((call) => call.userId === user && call.sessionId === id);
  const isInConversation = view === "conversations" && session;
  return html`<div class=${`page view-${view} ${session ? "with-session" : ""}`}>
    ${isInConversation && html`<a class="skip" href="#main" onClick=${skip}>Skip to the conversation</a>`}
    <header class="top">
      <a class="brand" href=${href({ app })} onClick=${follow({ view: undefined, session: undefined, user: undefined, turn: undefined, seq: undefined })}>raygrove</a>
      ${
        apps.length > 1
          ? html`<select aria-label="App" onChange=${(/** @type {InputEvent} */ event) =>
              go({
                app: /** @type {HTMLSelectElement} */ (event.target).value,
                session: undefined,
                user: undefined,
                turn: undefined,
                seq: undefined,
                agent: undefined,
                batch: undefined,
                item: undefined,
                open: undefined,
              })}>
              ${apps.map((each) => html`<option key=${each.name} selected=${each.name === app}>${each.name}</option>`)}</select>`
          : html`<b>${app}</b>`
      }
      <nav aria-label="Views">${views.map(
        ([
          name,
          title,
        ]) => html`<a key=${name} href=${href({ ...place.value, view: name })} aria-current=${name === view ? "page" : undefined}
          onClick=${follow({ view: name === "conversations" ? undefined : name })}>${title}${name === "inbox" && waiting.length ? html` <span class="badge">${waiting.length}</span>` : ""}</a>`,
      )}</nav>
      <span class="me">${me.value?.userId ?? (me.value?.isAdmin ? "administrator" : "any user")}${me.value?.needsCredentials && html` <button class="plain" onClick=${forgetToken}>leave</button>`}</span>
    </header>
    ${isRefused ? html`<p class="none">This view is for administrators.</p>` : view === "batches" ? html`<${BatchesView} app=${app} key=${app} />` : view === "figures" ? html`<${FiguresView} app=${app} key=${app} />` : view === "usage" ? html`<${UsageView} app=${app} key=${app} />` : view === "tree" ? html`<${Tree} app=${app} />` : view === "inbox" ? html`<${Inbox} app=${app} />` : html`<${Conversations} app=${app} />`}
    ${view === "conversations" && html`<main id="main" tabindex="-1">${session ? html`<${Chat} session=${session} pending=${here} key=${`${session.user} ${session.id}`} />` : html`<p class="none">Choose a conversation, or begin a new one.</p>`}</main>`}
    ${(view === "conversations" ? session : view === "tree" && place.value.agent) && html`<${Details} session=${view === "conversations" ? session : null} app=${app} />`}
    <${Dialog} />
  </div>`;
}
