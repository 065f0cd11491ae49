/** One session as it lives: its newest events, those that come, and its turns. */
import { signal } from "@preact/signals";
import { ask, frames, Refused, send, userQuery } from "./api.js";
import { answerKey, withPiece } from "./log.js";

/** @import { Event, Run, Session, Turn } from "./types.js" */

const FIRST = 200;
const EARLIER = 500;
const TURNS = 200;
const PAUSES_MS = [200, 500, 1000, 2000, 5000];
const SETTLE_MS = 250;
const LOOK_MS = 1500;

/** A session that is shown. It follows its log until it is closed, over losses of the connection. */
export class OpenSession {
  /** @param {string} app @param {string} user @param {string} id */
  constructor(app, user, id) {
    this.app = app;
    this.user = user;
    this.id = id;
    /** Stored events without a gap, the newest last. */
    this.events = signal(/** @type {Event[]} */ ([]));
    /** Answers under way. */
    this.partials = signal(/** @type {Map<string, Event>} */ (new Map()));
    this.turns = signal(/** @type {Turn[]} */ ([]));
    /** Those that agents have started in it. */
    this.runs = signal(/** @type {Run[]} */ ([]));
    this.session = signal(/** @type {(Session & { headSeq: number }) | null} */ (null));
    /** "loading", "live", "away" while the connection is lost, "new" for a session that is not there yet, "deleted" for one that is there no more, or what is wrong. */
    this.status = signal("loading");
    this.hasEarlier = signal(false);
    this._ending = new AbortController();
    this._isReading = false;
    /** Where the turns go on that are older than those of the list. @type {string | undefined} */
    this._older = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._looking = undefined;
    this._follow();
  }

  /** The path of the session, and of something in it. @param {string[]} more */
  path(...more) {
    return ["apps", this.app, "sessions", this.id, ...more];
  }

  /** @param {string[]} path @param {import("./api.js").Options} [options] */
  ask(path, options = {}) {
    return ask(path, { signal: this._ending.signal, ...options, query: { ...userQuery(this.user), ...options.query } });
  }

  /** Follow it no more. */
  close() {
    this._ending.abort();
    clearTimeout(this._looking);
  }

  get isClosed() {
    return this._ending.signal.aborted;
  }

  async _follow() {
    let wasThere = false;
    for (let tries = 0; !this.isClosed; tries++) {
      try {
        if (!this.session.value) await this._load();
        await this._tail(() => {
          tries = 0;
        });
        this.status.value = "away";
      } catch (error) {
        if (this.isClosed) return;
        if (error instanceof Refused && error.status === 404) {
          if (!this.session.value) {
            this.status.value = wasThere ? "deleted" : "new";
            return;
          }
          // It may have been created again already.
          wasThere = true;
          this._forget();
          continue;
        }
        if (error instanceof Refused && error.status < 500 && error.status !== 429) {
          this.status.value = error.message;
          return;
        }
        this.status.value = "away";
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSES_MS[Math.min(tries, PAUSES_MS.length - 1)]));
    }
  }

  /** Begin to follow a session that has been created meanwhile. */
  again() {
    if (this.status.value !== "new" && this.status.value !== "deleted") return;
    this.status.value = "loading";
    this._follow();
  }

  /** Throws Refused if the log is not the one that is shown: a session that was deleted may have been created again. */
  async _checkLog() {
    const first = this.events.value[0];
    if (!first) return;
    const { events } = await this.ask(this.path("events"), { query: { after_seq: first.seq - 1, limit: 1 } });
    if (events[0]?.id !== first.id) throw new Refused(404, "", "the session was created again");
  }

  /** Let go of all that was read. */
  _forget() {
    this.events.value = [];
    this.partials.value = new Map();
    this.turns.value = [];
    this.session.value = null;
    this.hasEarlier.value = false;
  }

  async _load() {
    const session = await this.ask(this.path());
    const page = await this.ask(this.path("events"), { query: { newest_first: true, limit: FIRST } });
    this.events.value = page.events.reverse();
    this.hasEarlier.value = (this.events.value[0]?.seq ?? 1) > 1;
    this.session.value = session;
    await this.look();
  }

  /** @param {() => void} onBegin */
  async _tail(onBegin) {
    const last = this.events.value.at(-1)?.seq ?? 0;
    const headers = { Accept: "text/event-stream", "Last-Event-ID": String(last) };
    const response = await send(this.path("events"), { headers, query: userQuery(this.user), signal: this._ending.signal });
    // From here on the stream says when the log is deleted. It may have been replaced before.
    await this._checkLog().catch((error) => {
      response.body?.cancel().catch(() => {});
      throw error;
    });
    // Answers under way are sent again from their beginning.
    this.partials.value = new Map();
    this.status.value = "live";
    onBegin();
    /** @type {Event[]} */
    let waiting = [];
    const show = () => {
      this._add(waiting);
      waiting = [];
    };
    for await (const frame of frames(response)) {
      if (frame.kind === "error") {
        const { status = 400, type = "", detail = "" } = JSON.parse(frame.data);
        throw new Refused(status, type, detail);
      }
      if (frame.kind !== "event" && frame.kind !== "partial") continue;
      // What comes at once is shown at once.
      if (!waiting.length) setTimeout(show);
      waiting.push(JSON.parse(frame.data));
    }
  }

  /** @param {Event[]} events */
  _add(events) {
    if (!events.length || this.isClosed) return;
    const partials = new Map(this.partials.value);
    const stored = [];
    let last = this.events.value.at(-1)?.seq ?? 0;
    for (const event of events) {
      const key = answerKey(event);
      if (event.partial) partials.set(key, withPiece(partials.get(key), event));
      else if (event.seq > last) {
        partials.delete(key);
        stored.push(event);
        last = event.seq;
      }
    }
    this.partials.value = partials;
    if (!stored.length) return;
    this.events.value = [...this.events.value, ...stored];
    if (stored.some((event) => event.actions?.rewindBeforeInvocationId)) this._readAgain();
    else if (stored.some((event) => Object.keys(event.actions?.stateDelta ?? {}).length)) this._read();
    this._lookSoon(SETTLE_MS);
  }

  /** Read everything again: turns were taken back. */
  async _readAgain() {
    this.turns.value = [];
    try {
      await this._load();
    } catch (error) {
      if (!this.isClosed) console.warn(error);
    }
  }

  /** Read where a turn is that is older than those of the list. @param {string} id */
  async readTurn(id) {
    if (this.turns.value.length < TURNS) return;
    try {
      const { turn } = await this.ask(this.path("turns", id));
      if (!this.turns.value.some((each) => each.invocationId === id)) this.turns.value = [...this.turns.value, turn];
    } catch (error) {
      if (!this.isClosed) console.info(`turn ${id}: ${error}`);
    }
  }

  /** Read the state again. */
  async _read() {
    try {
      this.session.value = await this.ask(this.path());
    } catch (error) {
      if (!this.isClosed) console.warn(error);
    }
  }

  /** @param {number} delay */
  _lookSoon(delay) {
    clearTimeout(this._looking);
    if (!this.isClosed) this._looking = setTimeout(() => this.look(), delay);
  }

  /** Where its turns are; again after a while as long as one is under way. */
  async look() {
    try {
      const [{ turns, next }, { runs }] = await Promise.all([
        this.ask(this.path("turns"), { query: { limit: TURNS } }),
        this.ask(this.path("background")),
      ]);
      this.runs.value = runs;
      if (!this.turns.value.length) this._older = next;
      const known = new Set(turns.map((/** @type {Turn} */ turn) => turn.invocationId));
      const others = this.turns.value.filter((turn) => !known.has(turn.invocationId));
      // Of a list that is whole none is missing but those that were taken back.
      this.turns.value = turns.length < TURNS ? turns : [...turns, ...others];
      const isOpen = turns.some((/** @type {Turn} */ turn) => turn.state === "running" || turn.state === "waiting");
      const isBusy = isOpen || runs.some((/** @type {Run} */ run) => run.status === "running");
      if (!isOpen && this.partials.value.size) this.partials.value = new Map();
      if (isBusy || this.status.value === "away") this._lookSoon(LOOK_MS);
      await this._readOlderTurns();
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) this._lookSoon(LOOK_MS);
    }
  }

  /** Read the turns of all events that are there: the list has the newest ones only. */
  async _readOlderTurns() {
    const first = this.events.value[0]?.seq ?? 1;
    while (this._older && this.turns.value.every((turn) => !turn.firstSeq || turn.firstSeq > first)) {
      const before = this._older;
      const { turns, next } = await this.ask(this.path("turns"), { query: { limit: TURNS, before } });
      if (this._older !== before) return;
      this._older = next;
      const known = new Set(this.turns.value.map((turn) => turn.invocationId));
      this.turns.value = [...this.turns.value, ...turns.filter((/** @type {Turn} */ turn) => !known.has(turn.invocationId))];
    }
  }

  /** Read older events. @param {number} [until] back to this one at least */
  async readEarlier(until = 0) {
    if (this._isReading || !this.hasEarlier.value) return;
    this._isReading = true;
    try {
      do {
        const first = this.events.value[0]?.seq ?? 1;
        const query = { newest_first: true, before_seq: first, limit: until ? 1000 : EARLIER };
        const page = await this.ask(this.path("events"), { query });
        this.events.value = [...page.events.reverse(), ...this.events.value];
        this.hasEarlier.value = page.events.length > 0 && (this.events.value[0]?.seq ?? 1) > 1;
      } while (this.hasEarlier.value && until && (this.events.value[0]?.seq ?? 1) > until);
      await this._readOlderTurns();
    } catch (error) {
      if (!this.isClosed) console.warn(error);
    } finally {
      this._isReading = false;
    }
  }

  /** Send a message; a turn that runs reads it. @param {string} message */
  async say(message) {
    const headers = { Prefer: "respond-async" };
    const body = { message, autoCreateSession: true, config: { streaming: "sse", onConcurrentTurn: "steer" } };
    const begun = await this.ask(this.path("turns"), { method: "POST", headers, body });
    this.again();
    this._lookSoon(0);
    return begun.invocationId;
  }

  /** Cancel a turn; it answers when the log is sealed. @param {string} turn */
  async stop(turn) {
    await this.ask(this.path("turns", turn), { method: "DELETE" });
    this._lookSoon(0);
  }

  /** Run a failed turn on. @param {string} turn */
  async retry(turn) {
    await this.ask(this.path("turns", turn, "retry"), { method: "POST", headers: { Prefer: "respond-async" } });
    this._lookSoon(0);
  }

  /** Make a new session with all up to the end of a turn. @param {string} turn @returns {Promise<string>} its id */
  async fork(turn) {
    const fork = await this.ask(this.path("fork"), { method: "POST", body: { invocationId: turn } });
    return fork.id;
  }

  /** Take the session back to before a turn. @param {string} turn */
  async rewind(turn) {
    await this.ask(this.path("rewind"), { method: "POST", body: { invocationId: turn } });
    this._lookSoon(0);
  }
}
