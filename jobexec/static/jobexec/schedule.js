/* Shows the next times of the expression and the time zone that are entered, before they are saved. */
"use strict";

(() => {
    const suggestions = document.getElementById("jobexec-expressions");
    const times = document.getElementById("jobexec-times");
    const fields = ["id_expression", "id_timezone"].map((id) => document.getElementById(id));
    if (!suggestions || !times || fields.includes(null)) return;

    const PAUSE = 250; // milliseconds without a key
    const shown = times.innerHTML;
    let timer = null;
    let asked = null;

    async function show() {
        if (fields.every((field) => field.value === field.defaultValue)) {
            times.innerHTML = shown;
            return;
        }
        asked = new AbortController();
        const { signal } = asked;
        const query = new URLSearchParams(fields.map((field) => [field.name, field.value]));
        let found = "";
        try {
            const answer = await fetch(`${suggestions.dataset.times}?${query}`, { credentials: "same-origin", signal });
            if (answer.ok && !answer.redirected) found = await answer.text(); // redirected: logged out
        } catch {
            // no answer: rather no times than those of something else
        }
        if (!signal.aborted) times.innerHTML = found;
    }

    for (const field of fields) {
        field.addEventListener("input", () => {
            asked?.abort();
            clearTimeout(timer);
            timer = setTimeout(show, PAUSE);
        });
    }
})();
