/**
 * The API's types, as far as the page reads them.
 *
 * @typedef {{ text?: string, thought?: boolean, functionCall?: FunctionCall, functionResponse?: FunctionResponse,
 *   inlineData?: { data: string, mimeType?: string, displayName?: string }, fileData?: { fileUri?: string, mimeType?: string },
 *   executableCode?: { code?: string }, codeExecutionResult?: { output?: string } }} Part
 * @typedef {{ id?: string, name: string, args?: Record<string, unknown> }} FunctionCall
 * @typedef {{ id?: string, name: string, response?: Record<string, unknown> }} FunctionResponse
 * @typedef {{ promptTokenCount?: number, candidatesTokenCount?: number, thoughtsTokenCount?: number,
 *   cachedContentTokenCount?: number, totalTokenCount?: number }} Usage
 * @typedef {{ stateDelta?: Record<string, unknown>, artifactDelta?: Record<string, number>, transferToAgent?: string,
 *   escalate?: boolean, rewindBeforeInvocationId?: string, agentState?: unknown, route?: unknown,
 *   requestedToolConfirmations?: Record<string, unknown>, requestedInputs?: Record<string, unknown> }} Actions
 * @typedef {{ id: string, agent: string, runSessionId: string, status: string, result?: string, error?: string }} Run
 * @typedef {{ decision: string, child: string, error_code?: string, error_traceback?: string, attempt?: number, of?: number, told: string }} Supervision
 * @typedef {{ id: string, invocationId: string, seq: number, author: string, timestamp: number, branch?: string,
 *   content?: { role?: string, parts?: Part[] }, partial?: boolean, errorCode?: string, errorMessage?: string,
 *   errorTraceback?: string, customMetadata?: { supervision?: Supervision }, usageMetadata?: Usage, durationS?: number, finishReason?: string, longRunningToolIds?: string[],
 *   nodeInfo?: { path?: string, attempt?: number, hasEnded?: boolean, isNote?: boolean, messageAsOutput?: boolean, outputFor?: string[] }, flow?: { run: string, round?: number, tasks?: string[] }, output?: unknown, actions?: Actions }} Event
 * @typedef {"waiting" | "running" | "paused" | "finished" | "failed" | "cancelled"} TurnState
 * @typedef {{ userId: string, sessionId: string, invocationId: string, state: TurnState, agent?: string, firstSeq?: number,
 *   lastSeq?: number, epoch?: number, begunS?: number, endedS?: number, error?: string, tokens?: number, failedTools?: number,
 *   lost?: LostProcess[] }} Turn
 * @typedef {{ agent?: string, lostS?: number, reason?: string }} LostProcess
 * @typedef {{ userId: string, sessionId: string, invocationId: string, callId: string, name: string,
 *   args?: Record<string, unknown>, agent?: string, isConfirmation?: boolean, question?: Record<string, unknown>,
 *   seq?: number, askedS?: number }} PendingCall
 * @typedef {{ agent: string, because: "unknown" | "kind" | "disallowed" | "beside", by?: string }} PassedOver
 * @typedef {{ seq: number, agent: string, because: "answers" | "awaited" | "addressed" | "flow" | "spoke" | "root", callId?: string,
 *   passedOver?: PassedOver[] }} Reason
 * @typedef {{ appName: string, userId: string, id: string, state: Record<string, unknown>, lastUpdateTime: number }} Session
 * @typedef {{ source: string, target: string, route?: string }} Edge
 * @typedef {{ name: string, kind: string, description?: string, parent?: string | null, model?: string, tools?: string[],
 *   agentTools?: string[], workers?: string[], edges?: [string, string, string?][], childCount?: number, children?: Agent[], hidden?: number, version?: string }} Agent
 * @typedef {{ kind: string, name: string, agent: string, pid: number, node: string, memoryBytes: number, counts: Record<string, number>, lives: boolean }} Actor
 * @typedef {{ llmCalls: number, toolCalls: number, inputTokens: number, cachedTokens: number, outputTokens: number,
 *   reasoningTokens: number, seconds: number, money: number | null }} UsageSums
 * @typedef {{ total: UsageSums, groups: Record<string, UsageSums>, currency: string, unpriced?: string[],
 *   turns?: { userId: string, sessionId: string, invocationId: string, begunS: number, sums: UsageSums }[] }} UsageReport
 * @typedef {{ name: string, objective?: string, status: "pending" | "running" | "successful" | "failed" | "skipped", isReady?: boolean,
 *   needs?: string[], parent?: string, agents?: string[], works?: string[], result?: unknown, reason?: string, llmCalls?: number,
 *   maxLlmCalls?: number }} BoardTask
 * @typedef {{ run: string, firstSeq: number, lastSeq: number, goal?: string[], tasks?: BoardTask[], counts?: Record<string, number>,
 *   rounds?: number, llmCalls?: number, stopped?: string }} Board
 * @typedef {{ graph: string, path: string, source: string, target: string, taken: boolean,
 *   because: "always" | "route" | "default" | "other" | "silent" | "patient", said?: (boolean | number | string)[],
 *   sourceRun?: string, targetRun?: string, lacks?: string[], seq?: number }} EdgeReason
 * @typedef {{ whose: string, field: string, limit: number, used: number, atLimit?: "stop" | "ask" | "wrap_up", model?: string }} UsedBudget
 * @typedef {{ model: string, endpoint?: string, begunS?: number, error?: string }} Attempt
 * @typedef {{ model?: string, config?: Record<string, unknown>, outputSchema?: unknown,
 *   tools?: { name: string, description?: string, parameters?: unknown }[], contents?: { role?: string, parts?: Part[] }[] }} ModelRequest
 * @typedef {{ agent: string, eventId: string, seq: number, begunS: number, endedS: number, streamed?: boolean, attempts?: Attempt[],
 *   usage?: Usage, error?: string, request?: ModelRequest, omitted?: string }} RecordedCall
 * @typedef {{ atS: number, agent: string, level: string, logger: string, text: string, details?: string, pid?: number }} LogLine
 * @typedef {{ id: string, kind: "map" | "evaluation", name: string, state?: "running" | "finished" | "stopped", begunS: number, updatedS: number,
 *   endedS?: number, total?: number, done?: number, failed?: number, repeated?: number, thresholds?: Record<string, number>,
 *   scores?: Record<string, number> }} Batch
 * @typedef {{ position: number, name: string, userId?: string, sessionId?: string, invocationId?: string, atS: number, error?: string,
 *   scores?: Record<string, number>, turns?: CaseTurn[], passed?: boolean }} BatchItem
 * @typedef {{ invocationId: string, message?: string, expected?: string, answer?: string, expectedTools?: string[], tools?: string[],
 *   scores?: Record<string, number> }} CaseTurn
 * @typedef {{ id: string, state: "current" | "shared" | "previous" | "kept", sinceS: number, part: number }} Version
 * @typedef {{ name: string, root: string, description: string }} App
 * @typedef {{ userId: string | null, isAdmin: boolean, isKnown: boolean, needsCredentials: boolean }} Me
 */
export {};
