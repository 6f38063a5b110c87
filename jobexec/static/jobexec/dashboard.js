/* Keeps the dashboard fresh: asks for its changing part while the page is seen and nobody has paused it. */
"use strict";

(() => {
    const frame = document.getElementById("jobexec-dashboard");
    if (!frame || !frame.dataset.url) return;

    const body = document.getElementById("jobexec-dashboard-body");
    const status = document.getElementById("jobexec-status");
    const button = document.getElementById("jobexec-pause");
    const interval = Number(frame.dataset.seconds) * 1000;
    const longest = 6 * interval;
    const REMEMBERED = "jobexec.dashboard.paused";

    let timer = null;
    let asking = false;
    let stopped = false;
    let failures = 0;
    let paused = remembered();

    function remembered() {
        try {
            return sessionStorage.getItem(REMEMBERED) === "yes";
        } catch {
            return false; // storage may be forbidden
        }
    }

    function remember() {
        try {
            sessionStorage.setItem(REMEMBERED, paused ? "yes" : "no");
        } catch {
            // then it holds for this page only
        }
    }

    function say(text) {
        if (status.textContent !== text) status.textContent = text;
    }

    function plan() {
        clearTimeout(timer);
        timer = null;
        if (paused || stopped || asking || document.hidden) return;
        timer = setTimeout(refresh, Math.min(interval * 2 ** failures, longest));
    }

    async function refresh() {
        if (asking) return;
        clearTimeout(timer);
        asking = true;
        try {
            const answer = await fetch(frame.dataset.url, {
                credentials: "same-origin",
                headers: { "X-Requested-With": "XMLHttpRequest" },
                signal: AbortSignal.timeout(3 * interval),
            });
            // The login page answers in place of the dashboard, or the permission is gone.
            if (answer.redirected || [401, 403, 404].includes(answer.status)) {
                stop();
                return;
            }
            if (!answer.ok) throw new Error(String(answer.status));
            show(await answer.text());
            say(failures ? frame.dataset.answered : "");
            failures = 0;
        } catch {
            failures += 1;
            say(frame.dataset.failed);
        } finally {
            asking = false;
            plan();
        }
    }

    function stop() {
        stopped = true;
        button.hidden = true;
        say(frame.dataset.stopped);
    }

    function show(html) {
        const selection = getSelection();
        if (selection && !selection.isCollapsed && body.contains(selection.anchorNode)) return; // somebody is copying
        const focus = place(document.activeElement);
        const scrolled = [...body.querySelectorAll(".jobexec-scroll")].map((box) => box.scrollLeft);
        body.innerHTML = html;
        body.querySelectorAll(".jobexec-scroll").forEach((box, number) => { box.scrollLeft = scrolled[number] || 0; });
        find(focus)?.focus({ preventScroll: true });
    }

    /* What has the focus, by what it is called or by where it leads and the how manieth of these it is. */
    function place(element) {
        if (!element || !body.contains(element)) return null;
        const same = likes(element.getAttribute("href"), element.getAttribute("aria-labelledby"));
        return { href: element.getAttribute("href"), label: element.getAttribute("aria-labelledby"), number: same.indexOf(element) };
    }

    function find(focus) {
        return focus && likes(focus.href, focus.label)[focus.number];
    }

    function likes(href, label) {
        return [...body.querySelectorAll("a[href], [tabindex]")].filter(
            (element) => element.getAttribute("href") === href && element.getAttribute("aria-labelledby") === label,
        );
    }

    function press() {
        button.setAttribute("aria-pressed", String(paused));
    }

    button.addEventListener("click", () => {
        paused = !paused;
        remember();
        press();
        if (paused) plan();
        else refresh();
    });
    document.addEventListener("visibilitychange", () => {
        if (document.hidden || paused || stopped) plan();
        else refresh();
    });

    document.getElementById("jobexec-refresh").hidden = false;
    press();
    plan();
})();
