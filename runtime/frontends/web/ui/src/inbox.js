/** Calls that wait for a person, and their answers: yes or no, a form made of a schema, or JSON. */
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { ask, Refused, userQuery } from "./api.js";
import { listed, pretty, time } from "./format.js";
import { pendingCalls, readPending } from "./pending.js";
import { follow, href } from "./place.js";

/** @import { PendingCall } from "./types.js" */
/** @typedef {{ type?: string, title?: string, description?: string, enum?: string[], default?: unknown, minimum?: number, maximum?: number, format?: string }} Field */
/** @typedef {{ properties?: Record<string, Field>, required?: string[], type?: string }} Schema */

/** The name of the call by which an agent asks for more of a budget. */
const BUDGET = "raygrove_request_budget";

const SIMPLE = new Set(["string", "number", "integer", "boolean"]);

/** @param {{ app: string }} props */
export function Inbox({ app }) {
  const calls = pendingCalls.value;
  return html`<section class="inbox" aria-label="Inbox">
    <h1>Waiting for a person</h1>
    ${!calls.length && html`<p class="none">Nothing waits.</p>`}
    ${calls.map(
      (call) => html`<div key=${`${call.sessionId} ${call.callId}`} class="letter">
        <a href=${href({ app, user: call.userId, session: call.sessionId, turn: call.invocationId })}
          onClick=${follow({ view: undefined, user: call.userId, session: call.sessionId, turn: call.invocationId })}>${call.userId} / ${call.sessionId}</a>
        <time>${time(call.askedS)}</time>
        <${Question} app=${app} call=${call} />
      </div>`,
    )}
  </section>`;
}

/**
 * The schema of the answer to a call, if it has one of simple fields. A simple value is a form of one field, `result`, under which
 * the answer to a question of a graph is given.
 *
 * @param {PendingCall} call @returns {Schema | null}
 */
export function schemaOf(call) {
  if (call.name === BUDGET) {
    const { field, limit } = call.args ?? {};
    return { properties: { [String(field)]: { type: "number", title: `More ${named(field)}`, default: limit, minimum: 0 } } };
  }
  const found = call.question?.requestedSchema ?? call.args?.response_schema ?? call.args?.responseSchema;
  const schema = /** @type {Schema | undefined} */ (found && typeof found === "object" ? found : undefined);
  if (schema && SIMPLE.has(schema.type ?? ""))
    return { properties: { result: /** @type {Field} */ (schema) }, required: ["result"] };
  const fields = Object.values(schema?.properties ?? {});
  return schema && fields.length && fields.every((field) => SIMPLE.has(field.type ?? "") || field.enum) ? schema : null;
}

/** The field of a budget, in words. @param {unknown} field */
const named = (field) => String(field).replaceAll("_", " ").replace("llm calls", "model calls");

/** One call, and the ways to answer it. @param {{ app: string, call: PendingCall }} props */
export function Question({ app, call }) {
  const [wrong, setWrong] = useState("");
  const [isSending, setIsSending] = useState(false);
  const [isJson, setIsJson] = useState(false);
  const schema = schemaOf(call);
  const isElicited = Boolean(call.question) && !call.isConfirmation;
  const message = call.question?.message ?? call.args?.message;
  const shown = { ...call.args };
  // What a question of a graph says of itself is shown as what it is.
  if (schema) for (const name of ["message", "response_schema", "responseSchema"]) delete shown[name];

  const answer = async (/** @type {unknown} */ value) => {
    setIsSending(true);
    setWrong("");
    try {
      const path = ["apps", app, "sessions", call.sessionId, "turns", call.invocationId, "answers"];
      const body = { answers: { [call.callId]: value }, config: { streaming: "sse" } };
      await ask(path, { method: "POST", query: userQuery(call.userId), body, headers: { Prefer: "respond-async" } });
      pendingCalls.value = pendingCalls.value.filter((each) => each.callId !== call.callId);
    } catch (error) {
      setWrong(String(error instanceof Error ? error.message : error));
      // It may have been answered elsewhere.
      if (error instanceof Refused) await readPending(app).catch(() => {});
    } finally {
      setIsSending(false);
    }
  };
  /** The form's values as the answer, in the form that the asking side wants. @param {Record<string, unknown>} values */
  const accept = (values) => answer(isElicited ? { action: "accept", content: values } : values);

  return html`<div class="question" role="group" aria-label=${`${call.name} waits for an answer`}>
    <p><b>${call.agent}</b> ${call.isConfirmation ? "wants to call" : "waits for"} <b>${call.name}</b>${Object.keys(shown).length ? `(${listed(shown)})` : ""}</p>
    ${message ? html`<p class="message">${String(message)}</p>` : ""}
    ${typeof call.question?.url === "string" && html`<p class="message">Visit: <code>${call.question.url}</code></p>`}
    ${wrong && html`<div class="error" role="alert">${wrong}</div>`}
    <fieldset disabled=${isSending}>
      ${
        isJson
          ? html`<${JsonForm} initial=${isElicited ? { action: "accept", content: {} } : call.isConfirmation ? { confirmed: true } : {}} onAnswer=${answer} />`
          : call.isConfirmation
            ? html`<button class="yes" onClick=${() => answer(true)}>Yes</button><button class="no" onClick=${() => answer(false)}>No</button>
              ${schema && html`<${SchemaForm} schema=${schema} onAnswer=${accept} />`}`
            : schema
              ? html`<${SchemaForm} schema=${schema} onAnswer=${accept} />`
              : isElicited
                ? html`<button class="yes" onClick=${() => accept({})}>Accept</button>`
                : html`<${JsonForm} initial=${{}} onAnswer=${answer} />`
      }
      ${isElicited && !isJson && html`<button class="no" onClick=${() => answer({ action: "decline" })}>Decline</button>`}
      ${(call.isConfirmation || schema || isElicited) && html`<button class="plain" onClick=${() => setIsJson(!isJson)}>${isJson ? "form" : "JSON"}</button>`}
    </fieldset>
  </div>`;
}

/** @param {{ initial: unknown, onAnswer: (value: unknown) => void }} props */
function JsonForm({ initial, onAnswer }) {
  const [wrong, setWrong] = useState("");
  return html`<form class="json" onSubmit=${(/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const text = new FormData(/** @type {HTMLFormElement} */ (event.target)).get("json")?.toString() ?? "";
    try {
      onAnswer(JSON.parse(text));
      setWrong("");
    } catch (error) {
      setWrong(String(error instanceof Error ? error.message : error));
    }
  }}>
    <textarea name="json" rows="3" aria-label="Answer as JSON" spellcheck=${false}>${pretty(initial)}</textarea>
    ${wrong && html`<div class="error" role="alert">${wrong}</div>`}
    <button>Answer</button>
  </form>`;
}

/** @param {{ schema: Schema, onAnswer: (values: Record<string, unknown>) => void }} props */
function SchemaForm({ schema, onAnswer }) {
  const fields = Object.entries(schema.properties ?? {});
  const required = new Set(schema.required ?? []);
  return html`<form class="fields" onSubmit=${(/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const given = new FormData(/** @type {HTMLFormElement} */ (event.target));
    /** @type {Record<string, unknown>} */
    const values = {};
    for (const [name, field] of fields) {
      const text = given.get(name)?.toString() ?? "";
      if (field.type === "boolean") values[name] = given.has(name);
      else if (text === "" && !required.has(name)) continue;
      else values[name] = field.type === "number" || field.type === "integer" ? Number(text) : text;
    }
    onAnswer(values);
  }}>
    ${fields.map(
      ([
        name,
        field,
      ]) => html`<label key=${name} class=${field.type === "boolean" ? "check" : ""}><span>${field.title ?? name}${required.has(name) ? " *" : ""}</span>
        ${
          field.enum
            ? html`<select name=${name}>${field.enum.map((value) => html`<option key=${value} selected=${value === field.default}>${value}</option>`)}</select>`
            : html`<input name=${name} type=${INPUTS[field.type ?? ""] ?? "text"} step=${field.type === "number" ? "any" : undefined} min=${field.minimum} max=${field.maximum}
                required=${required.has(name) && field.type !== "boolean"} checked=${field.default === true}
                value=${field.type === "boolean" ? undefined : (field.default ?? "")} />`
        }
        ${field.description && html`<small>${field.description}</small>`}</label>`,
    )}
    <button>Answer</button>
  </form>`;
}

/** @type {Record<string, string>} */
const INPUTS = { boolean: "checkbox", integer: "number", number: "number" };
