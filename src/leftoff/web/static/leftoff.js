// Live: on each event the page is asked for again, and what differs is replaced.
"use strict";

async function refresh() {
  const answer = await fetch(location.href, { headers: { "X-Leftoff-Partial": "1" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const element of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(element.id);
    if (other && other.innerHTML !== element.innerHTML) element.replaceWith(document.adoptNode(other));
  }
}

new EventSource(document.body.dataset.events).addEventListener("change", refresh);
