// Following of a running watch: each newer version replaces what the page shows, unless the reader
// has paused it.

import { render } from "preact";
import { ASKED_EVERY_MS, latest, news, versionOf } from "./source.ts";

type Server = "here" | "over" | "gone";

/** Follows the watch, and says at the end of the page how old its figures are. `show` replaces what
 * the page shows. */
export function follow(show: (fresh: Document) => Promise<void>) {
    const place = document.createElement("footer");
    place.id = "live";
    document.body.append(place);
    let shown = versionOf(document);
    let asOf = Date.now();
    let isPaused = false;
    let server: Server = "here";
    /** A version that is not shown yet. A paused page keeps the last one: the server soon ends. */
    let next: Document | null = null;

    async function advance() {
        if (next && !isPaused) {
            await show(next);
            shown = versionOf(next);
            asOf = Date.now();
            next = null;
        }
    }

    async function ask(): Promise<Server> {
        const { version, age_ms, is_last } = await news();
        if (version !== shown && (is_last || !isPaused)) {
            next = await latest();
            await advance();
        }
        if (version === shown) {
            asOf = Date.now() - age_ms;
        }
        return is_last ? "over" : "here";
    }

    async function step() {
        server = await ask().catch(() => "gone");
        draw();
        if (server !== "over") {
            setTimeout(step, ASKED_EVERY_MS);
        }
    }

    async function toggle() {
        isPaused = !isPaused;
        await advance();
        draw();
    }

    function draw() {
        const isPast = server === "over" && !next;
        const age = Math.round((Date.now() - asOf) / 1000);
        const says = isPaused && server === "here" ? "Paused." : SAYS[server];
        render(
            <>
                <span role="status">{says}</span>{" "}
                <span class="muted">
                    {isPast ? "These are its last figures." : `Figures of ${age} s ago.`}
                </span>
                {!isPast && server !== "gone" && (
                    <button type="button" onClick={toggle}>
                        {isPaused ? "Follow" : "Pause"}
                    </button>
                )}
            </>,
            place,
        );
    }

    draw();
    setInterval(draw, 1000);
    void step();
}

const SAYS: Record<Server, string> = {
    here: "Live.",
    over: "The watch has ended.",
    gone: "The watch has ended, or its server cannot be reached.",
};
