// The stream of events, in a worker that all tabs of a browser share: a browser opens only six connections to a server,
// and a stream holds one of them. Where workers cannot be shared, each tab that somebody looks at has its own.
"use strict";

const tabs = new Set(); // a tab that died without leaving is never heard of again, and does no harm
let stream = null;
let live; // whether the server is there, once that is known
let again = 0;

function tell(message) {
  for (const tab of tabs) tab.postMessage(message);
}

function open(url) {
  stream = new EventSource(url);
  stream.onopen = () => { live = true; tell({ live }); };
  stream.addEventListener("change", (event) => tell({ change: JSON.parse(event.data) }));
  stream.onerror = () => {
    live = false;
    tell({ live });
    if (stream.readyState === EventSource.CLOSED) again = setTimeout(open, 3000, url);
  };
}

// A tab that joins looks at everything once: something may have changed since it was loaded.
function join(tab, url) {
  tabs.add(tab);
  if (!stream) { open(url); return; }
  if (live !== undefined) tab.postMessage({ live });
  tab.postMessage({ change: { all: true } });
}

function leave(tab) {
  if (!tabs.delete(tab) || tabs.size) return;
  clearTimeout(again);
  stream.close();
  stream = null;
  live = undefined;
}

function serve(tab) {
  tab.onmessage = ({ data }) => (data.url ? join(tab, data.url) : leave(tab));
}

if ("onconnect" in self) self.onconnect = ({ ports: [tab] }) => serve(tab);
else serve(self);
