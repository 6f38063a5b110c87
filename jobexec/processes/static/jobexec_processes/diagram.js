// Puts the diagram of the file in the place of the server's picture, with what stands at its elements.
"use strict";

(() => {
    const frame = document.getElementById("jobexec-diagram");
    const drawn = document.getElementById("jobexec-server-picture");
    const zoom = document.getElementById("jobexec-zoom");
    if (!frame || !window.BpmnJS) {
        return;
    }

    const short = number => {
        const [size, unit] = number >= 1e6 ? [1e6, "M"] : number >= 1e3 ? [1e3, "k"] : [1, ""];
        return `${Math.floor(number / size)}${unit}`;
    };

    const badge = (kind, number, told) => {
        const found = document.createElement("div");
        found.className = `jobexec-overlay ${kind}`;
        found.textContent = short(number);
        found.title = told;
        return found;
    };

    const overlay = (viewer, elements, taken) => {
        const canvas = viewer.get("canvas"), overlays = viewer.get("overlays"), registry = viewer.get("elementRegistry");
        for (const [id, at] of Object.entries(elements)) {
            if (!registry.get(id)) {
                continue;
            }
            at.classes.forEach(name => canvas.addMarker(id, name));
            if (at.incidents) {
                overlays.add(id, { position: { top: -9, right: 9 }, html: badge("incidents", at.incidents, at.told) });
            }
            if (at.tokens || at.runs) {
                const kind = at.tokens ? "tokens" : "runs";
                // The name of an event or a gateway is below it.
                const side = registry.get(id).height < 60 ? { top: -9, left: -9 } : { bottom: 9, left: -9 };
                overlays.add(id, { position: side, html: badge(kind, at[kind], at.told) });
            }
        }
        taken.filter(id => registry.get(id)).forEach(id => canvas.addMarker(id, "jobexec-taken"));
    };

    const fit = canvas => {
        const inner = canvas.viewbox().inner;
        const scale = Math.min(1, frame.clientWidth / (inner.width + 80));
        frame.style.height = `${Math.min(Math.max(inner.height * scale + 100, 220), 640)}px`;
        canvas.resized();
        canvas.zoom("fit-viewport", "auto");
    };

    const show = async () => {
        const answer = await fetch(frame.dataset.url, { headers: { Accept: "application/json" } });
        if (!answer.ok) {
            throw new Error(`HTTP ${answer.status}`);
        }
        const { xml, elements, taken } = await answer.json();
        frame.hidden = false;
        const viewer = new window.BpmnJS({
            container: frame,
            zoomScroll: { enabled: false }, // the wheel scrolls the page
            bpmnRenderer: {
                defaultFillColor: "var(--body-bg)",
                defaultStrokeColor: "var(--body-fg)",
                defaultLabelColor: "var(--body-fg)",
            },
        });
        await viewer.importXML(xml);
        const canvas = viewer.get("canvas");
        overlay(viewer, elements, taken);
        drawn.hidden = true;
        fit(canvas);
        zoom.hidden = false;
        zoom.addEventListener("click", event => {
            const value = event.target.value;
            if (value === "fit") {
                fit(canvas);
            } else if (value) {
                canvas.zoom(canvas.zoom() * Number(value));
            }
        });
        frame.dataset.state = "drawn";
    };

    show().catch(error => {
        // The server's picture stays: an unreachable server, or a file whose drawing cannot be read.
        console.info(`No diagram: ${error.message}`);
        frame.hidden = true;
        drawn.hidden = false;
    });
})();
