// The page's own script: times in the reader's zone, the keyboard, and what changes while the page is open.
// Without it every page still shows and does everything; it only has to be loaded anew by hand.
"use strict";

// -- times: "3 min ago" for what is near, the reader's clock for what is not; the exact moment on hover.

const near = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto", style: "short" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

function tellTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const minutes = Math.round((at - Date.now()) / 60000);
    const today = at.toDateString() === new Date().toDateString();
    const words = Math.abs(minutes) < 60 ? near.format(minutes, "minute") : (today ? clock : day).format(at);
    if (element.textContent !== words) element.textContent = words;
    element.title = exact.format(at);
  }
}

// -- what changes: the same page is asked for again, and what differs in it is put in its place.

let asking = false;
let again = false;

async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Leftoff-Partial": "1" }, credentials: "same-origin" });
    if (answer.ok) replace(await answer.text());
    else if (answer.status === 403 || answer.status === 401) location.reload();
  } catch { /* the server is away: the stream of events says so */ }
  asking = false;
  if (again) { again = false; soon(); }
}

let waits = 0;
function soon() {
  if (!waits) waits = setTimeout(() => { waits = 0; if (!document.hidden) refresh(); else stale = true; }, 120);
}

let stale = false;
document.addEventListener("visibilitychange", () => { if (!document.hidden && stale) { stale = false; soon(); } });

const sent = new Map(); // what the server said of each part, before the script changed it

function replace(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const ids = new Set();
  for (const part of fresh.querySelectorAll("[data-live][id]")) {
    ids.add(part.id);
    const markup = part.outerHTML;
    const here = document.getElementById(part.id);
    if (!here) { if (part.parentElement === fresh.body) restart(); continue; }
    if (sent.get(part.id) === markup) continue;
    const known = sent.has(part.id);
    sent.set(part.id, markup);
    if (known || here.outerHTML !== markup) put(here, part, known);
  }
  for (const part of document.querySelectorAll("[data-live][id]")) {
    if (!ids.has(part.id)) { sent.delete(part.id); part.remove(); }
  }
  poll();
}

let restarted = false;
function restart() { if (!restarted) { restarted = true; location.reload(); } }

function put(here, part, known) {
  if (here.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) {
    sent.delete(part.id); // somebody is writing there: the next event tries again
    return;
  }
  const open = new Set([...here.querySelectorAll("details[open][id]")].map((one) => one.id));
  const chosen = [...here.querySelectorAll("input[type=radio]:checked, input[type=checkbox]:checked")].map((one) => [one.name, one.value]);
  const focus = here.contains(document.activeElement) ? path(document.activeElement) : null;
  const scrolled = [...here.querySelectorAll(".scroll, pre")].map((one) => [one.scrollTop, one.scrollLeft, one.scrollHeight - one.clientHeight - one.scrollTop < 4]);
  const before = new Set([...here.querySelectorAll("[data-row][id]")].map((one) => one.id));
  const at = [...here.querySelectorAll("[data-row]")].findIndex((one) => one.classList.contains("is-chosen"));
  tellTimes(part);
  here.replaceWith(document.adoptNode(part));
  if (at >= 0) part.querySelectorAll("[data-row]")[at]?.classList.add("is-chosen");
  for (const id of open) { const one = document.getElementById(id); if (one) one.open = true; }
  for (const [name, value] of chosen) { const one = part.querySelector(`input[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`); if (one) one.checked = true; }
  [...part.querySelectorAll(".scroll, pre")].forEach((one, place) => {
    const was = scrolled[place];
    if (was) { one.scrollLeft = was[1]; one.scrollTop = was[2] && one.matches(".log") ? one.scrollHeight : was[0]; }
  });
  if (known) for (const one of part.querySelectorAll("[data-row][id]")) if (!before.has(one.id)) one.classList.add("is-new");
  if (focus) document.querySelector(focus)?.focus();
  buttons(part);
  headline();
}

function path(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const href = element.getAttribute("href");
  return href ? `a[href="${CSS.escape(href)}"]` : null;
}

// The title and the icon say how many runs need a person.
function headline() {
  const about = document.getElementById("about");
  if (!about) return;
  document.title = about.dataset.title || document.title;
  const icon = document.querySelector("link[data-icon]");
  if (icon && about.dataset.need !== undefined) icon.href = `${icon.dataset.icon}?need=${about.dataset.need}`;
}

// A log grows without an event: it is asked for while somebody writes it and looks at it.
let polling = 0;
function poll() {
  clearTimeout(polling);
  if (document.querySelector("[data-poll]")) polling = setTimeout(() => { if (document.hidden) poll(); else refresh(); }, 1000);
}

// -- the stream of events

const live = document.querySelector(".live");
function say(state, words) {
  if (!live) return;
  live.classList.toggle("is-live", state === "live");
  live.classList.toggle("is-away", state === "away");
  const text = live.querySelector("[data-live-words]");
  if (text.textContent !== words) text.textContent = words;
}

// A page of one run, or of one project, is only about that.
function concerns(event) {
  const { project, run } = document.body.dataset;
  if (event.all || !project) return true;
  return event.project === project && (!run || event.runs.includes(run));
}

let away = false;
function hear({ live, change }) {
  if (live) { say("live", "Live"); if (away) { away = false; soon(); } }
  if (live === false) { away = true; say("away", "The server is away; trying again"); }
  if (change && concerns(change)) soon();
}

// One worker has the stream for all tabs, see events.js. Where each tab has its own, it is closed while the tab is hidden.
function listen() {
  const { events, worker } = document.body.dataset;
  if (!events || !window.Worker) return;
  const shared = window.SharedWorker && new SharedWorker(worker);
  const stream = shared ? shared.port : new Worker(worker);
  const join = () => stream.postMessage({ url: new URL(events, location.href).href });
  const leave = () => stream.postMessage({});
  stream.onmessage = (event) => hear(event.data);
  if (shared || !document.hidden) join();
  if (!shared) document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); else join(); });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (event) => { if (event.persisted) { join(); soon(); } });
}

// -- the keyboard: / searches, j and k move from row to row, Enter opens.

let row = -1;
function move(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const now = rows.findIndex((one) => one.classList.contains("is-chosen"));
  row = Math.max(0, Math.min(rows.length - 1, (now < 0 ? row : now) + by));
  for (const one of rows) one.classList.remove("is-chosen");
  rows[row].classList.add("is-chosen");
  rows[row].querySelector("a")?.focus({ preventScroll: true });
  rows[row].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writing = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && writing) event.target.blur();
  if (writing) return;
  if (event.key === "/") { const field = document.querySelector("[data-search]"); if (field) { event.preventDefault(); field.focus(); field.select(); } }
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
});

// -- whether a run can go on: that takes a look at the world, so it is asked for when the page is there.

async function verdict() {
  const link = document.querySelector("a[data-verdict]");
  if (!link) return;
  try {
    const answer = await fetch(link.href, { headers: { "X-Leftoff-Partial": "1" }, credentials: "same-origin" });
    const says = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-says]");
    if (says) link.textContent = says.textContent;
  } catch { /* the link still leads there */ }
}

// -- copying

function buttons(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.onclick = async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    };
  }
}

tellTimes(document);
buttons(document);
headline();
listen();
poll();
verdict();
setInterval(() => { if (!document.hidden) tellTimes(document); }, 30000);
const log = document.querySelector(".log");
if (log) log.scrollTop = log.scrollHeight;
