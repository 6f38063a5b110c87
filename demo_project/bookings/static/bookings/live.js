// Once a second, what is marked data-live is asked for again: the same page with ?live.
const part = document.querySelector("[data-live]");
const address = new URL(location.href);
address.searchParams.set("live", "");
let shown = "";

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(address);
    const html = answer.ok ? await answer.text() : shown;
    // Untouched while nothing has changed: a selection, and the place of the keyboard, stay.
    if (html !== shown) part.innerHTML = shown = html;
    part.classList.remove("stale");
  } catch {
    part.classList.add("stale"); // the site is away
  }
}

if (part) setInterval(refresh, 1000);
