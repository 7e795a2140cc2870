// The stream of events, in a worker that all tabs of a browser share: a browser opens only six connections to a server,
// and a stream holds one of them. Where workers cannot be shared, each tab that somebody looks at has its own.
"use strict";

const tabs = new Set(); // a tab that died without leaving is never heard of again, and does no harm
const at = new Map(); // by project, the newest position that the stream told
let stream = null;
let live; // whether the server is there, once that is known
let again = 0;

function positions(cursor) {
  const parts = cursor.split(",").map((part) => part.match(/^(.+):(\d+)$/)).filter(Boolean);
  return parts.map(([, project, number]) => [project, Number(number)]);
}

function note(cursor) {
  for (const [project, number] of positions(cursor)) at.set(project, Math.max(number, at.get(project) || 0));
}

function tell(message) {
  for (const tab of tabs) tab.postMessage(message);
}

function open(url) {
  stream = new EventSource(url);
  stream.onopen = () => { live = true; tell({ live }); };
  stream.addEventListener("position", (event) => note(event.lastEventId));
  stream.addEventListener("change", (event) => { note(event.lastEventId); tell({ change: JSON.parse(event.data) }); });
  stream.onerror = () => {
    live = false;
    tell({ live });
    if (stream.readyState === EventSource.CLOSED) again = setTimeout(open, 3000, url);
  };
}

// A tab joins with the address of its stream, whose cursor says what the tab has seen.
function join(tab, url) {
  const cursor = new URL(url).searchParams.get("cursor") || "";
  tabs.add(tab);
  if (!stream) { note(cursor); open(url); return; }
  if (live !== undefined) tab.postMessage({ live });
  const behind = positions(cursor).some(([project, number]) => !(at.get(project) <= number));
  if (behind) tab.postMessage({ change: { all: true } });
}

function leave(tab) {
  if (!tabs.delete(tab) || tabs.size) return;
  clearTimeout(again);
  stream.close();
  stream = null;
  live = undefined;
  at.clear();
}

function serve(tab) {
  tab.onmessage = ({ data }) => (data.url ? join(tab, data.url) : leave(tab));
}

if ("onconnect" in self) self.onconnect = ({ ports: [tab] }) => serve(tab);
else serve(self);
