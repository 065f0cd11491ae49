/** The rows of a conversation: pure functions. */
import { failedTools, shownEvents, transferCalls } from "./log.js";

/** @import { Event, PendingCall, Turn } from "./types.js" */
/**
 * @typedef {{ kind: "turn", key: string, id: string, turn: Turn | undefined, at: number, failed: Event[] }} TurnRow
 * @typedef {{ kind: "event", key: string, event: Event, call?: Event | undefined }} EventRow
 * @typedef {{ kind: "question", key: string, call: PendingCall }} QuestionRow
 * @typedef {TurnRow | EventRow | QuestionRow} Row
 */

/**
 * The rows of a conversation.
 *
 * @param {Event[]} events
 * @param {Map<string, Event>} partials
 * @param {Turn[]} turns
 * @param {PendingCall[]} pending
 * @returns {Row[]}
 */
export function rowsOf(events, partials, turns, pending) {
  const byId = new Map(turns.map((turn) => [turn.invocationId, turn]));
  /** @type {Row[]} */
  const rows = [];
  const transfers = transferCalls(events);
  const hidden = new Set(transfers.values());
  let current = "";
  /** @type {Event[]} */
  let failed = [];
  for (const event of shownEvents(events)) {
    if (hidden.has(event)) continue;
    if (event.invocationId !== current) {
      current = event.invocationId;
      failed = [];
      rows.push({ kind: "turn", key: `turn ${event.seq}`, id: current, turn: byId.get(current), at: event.timestamp, failed });
    }
    if (failedTools(event).length) failed.push(event);
    rows.push({ kind: "event", key: String(event.seq), event, call: transfers.get(event.seq) });
  }
  for (const [key, event] of partials) rows.push({ kind: "event", key: `partial ${key}`, event });
  for (const call of pending) rows.push({ kind: "question", key: `question ${call.callId}`, call });
  return rows;
}
