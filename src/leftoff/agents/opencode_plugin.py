"""The plugin that `leftoff install opencode` writes. It tells `leftoff hook` of events in the words of Claude Code."""

from __future__ import annotations

import json

_PLUGIN = """\
// Written by `leftoff install opencode`: reports sessions to leftoff. Without leftoff it does nothing.
import { spawn } from "node:child_process"

const COMMAND = %s
const TOOLS = { write: "Write", edit: "Edit", apply_patch: "apply_patch", bash: "Bash", todowrite: "TodoWrite" }

export const Leftoff = async ({ client, directory }) => {
  const parents = new Map() // the parent of each session; null if the user started it
  const told = new Map() // what the model of a session is told
  const said = new Map() // the last text of a session
  const failed = new Set() // sessions whose turn ended with an error or an interrupt

  let last = Promise.resolve() // one hook after the other: OpenCode exits while the end of a turn is reported
  const hook = (...event) => {
    const next = () => call(...event)
    return (last = last.then(next, next))
  }

  const call = (session, name, about = {}) =>
    new Promise((done) => {
      const [program, ...words] = COMMAND
      const child = spawn(program, words, { cwd: directory, stdio: ["pipe", "pipe", "ignore"] })
      let answer = ""
      child.on("error", () => done(undefined))
      child.stdin.on("error", () => {})
      child.stdout.on("data", (data) => (answer += data))
      child.on("close", () => {
        try {
          const text = JSON.parse(answer).hookSpecificOutput.additionalContext
          if (text) told.set(session, text)
        } catch {} // it says nothing
        done(undefined)
      })
      setTimeout(done, 10_000).unref()
      child.stdin.end(JSON.stringify({ hook_event_name: name, session_id: session, cwd: directory, ...about }))
    })

  const begin = async (session) => {
    if (parents.has(session)) return
    const { data } = await client.session.get({ path: { id: session } })
    parents.set(session, data?.parentID ?? null)
    if (!data?.parentID) await hook(session, "SessionStart", { source: "resume" })
  }

  const root = (session) => (parents.get(session) ? root(parents.get(session)) : session)

  const tool = async (name, input, args, about = {}) => {
    const path = args.filePath && { file_path: args.filePath }
    const given = { tool_name: TOOLS[input.tool], tool_input: { ...args, ...path, input: args.patchText } }
    if (given.tool_name) await hook(root(input.sessionID), name, { ...given, ...about })
  }

  const idle = async (session) => {
    const parent = parents.get(session)
    const text = { last_assistant_message: said.get(session) ?? "" }
    if (parent) await hook(root(session), "SubagentStop", { agent_id: session, agent_type: "task", ...text })
    else if (parent === null && !failed.delete(session)) await hook(session, "Stop", text)
  }

  return {
    "chat.message": async ({ sessionID }, { parts }) => {
      await begin(sessionID)
      if (parents.get(sessionID)) return
      failed.delete(sessionID)
      const prompt = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      const text = prompt.join("\\n").replace(/^"([^"]*)"$/, "$1") // `opencode run` puts its argument in quotes
      await hook(sessionID, "UserPromptSubmit", { prompt: text })
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      if (told.has(sessionID)) system.push(told.get(sessionID))
    },
    "experimental.text.complete": async ({ sessionID }, { text }) => {
      said.set(sessionID, text)
      if (text && !parents.get(sessionID)) await hook(sessionID, "AgentText", { last_assistant_message: text })
    },
    "tool.execute.before": async (input, { args }) => {
      if (!["bash", "todowrite"].includes(input.tool)) await tool("PreToolUse", input, args)
    },
    "tool.execute.after": async (input, { output, metadata }) => {
      const error = input.tool === "bash" && metadata?.exit ? { error: `Exit code ${metadata.exit}\\n${output}` } : {}
      if (input.tool !== "bash") await tool("PostToolUse", input, input.args)
      else if (error.error) await tool("PostToolUseFailure", input, input.args, error)
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      if (!parents.get(sessionID)) await hook(sessionID, "PreCompact", { trigger: "auto" })
    },
    "shell.env": async ({ sessionID }, { env }) => {
      if (sessionID) env.LEFTOFF_SESSION = root(sessionID)
    },
    event: async ({ event: { type, properties } }) => {
      if (type === "session.created") {
        const { id, parentID } = properties.info
        parents.set(id, parentID ?? null)
        if (!parentID) await hook(id, "SessionStart", { source: "startup" })
      } else if (type === "session.idle") {
        await idle(properties.sessionID)
      } else if (type === "session.compacted" && !parents.get(properties.sessionID)) {
        await hook(properties.sessionID, "SessionStart", { source: "compact" })
      } else if (type === "session.error" && parents.get(properties.sessionID) === null) {
        const { name, data } = properties.error ?? {}
        failed.add(properties.sessionID)
        if (name === "MessageAbortedError") return
        await hook(properties.sessionID, "StopFailure", { error: name, error_details: data?.message })
      }
    },
    dispose: async () => {
      const own = [...parents.keys()].filter((session) => parents.get(session) === null)
      for (const session of own) await hook(session, "SessionEnd", { reason: "exit" })
    },
  }
}
"""


def opencode_plugin(command: list[str]) -> str:
    """Return the text of the plugin. ``command``: what it calls."""
    return _PLUGIN % json.dumps(command)
