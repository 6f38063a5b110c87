/* Keeps the page of an unfinished batch fresh: asks for the page again while it is seen, and takes its fields over. */
"use strict";

(() => {
    const FIELDS = "#content-main fieldset .form-row";
    const marker = () => document.getElementById("jobexec-refresh");
    if (!marker()) return;

    const interval = Number(marker().dataset.seconds) * 1000;
    let failures = 0;

    function plan() {
        if (marker()) setTimeout(refresh, Math.min(interval * 2 ** failures, 12 * interval));
    }

    async function refresh() {
        if (document.hidden) return plan();
        try {
            const answer = await fetch(location.href, {
                credentials: "same-origin",
                signal: AbortSignal.timeout(3 * interval),
            });
            if (answer.redirected || [401, 403, 404].includes(answer.status)) return; // logged out, or it is deleted
            if (!answer.ok) throw new Error(String(answer.status));
            take(new DOMParser().parseFromString(await answer.text(), "text/html"));
            failures = 0;
        } catch {
            failures += 1;
        }
        plan();
    }

    function take(fresh) {
        const before = document.querySelectorAll(FIELDS);
        const now = fresh.querySelectorAll(FIELDS);
        // The batch is over, or something that the fields do not show has changed: then its actions change, too.
        if (before.length !== now.length || !fresh.getElementById("jobexec-refresh")) {
            location.reload();
            return;
        }
        before.forEach((row, number) => {
            if (row.innerHTML !== now[number].innerHTML) row.innerHTML = now[number].innerHTML;
        });
    }

    plan();
})();
