// The words for interventions.

import type { Experiment } from "./document/report.ts";
import { duration } from "./quantity.ts";
import { visible } from "./visible.ts";

const NAMES: Record<string, string> = {
    "quick-ack": "TCP_QUICKACK armed after every read",
    "client-nagle": "TCP_NODELAY off on our side",
    "connection-close": "Connection: close",
    "fresh-connection": "a fresh connection for each request",
};

/** The name of an intervention for a sentence. */
export function experimentWords(experiment: Experiment): string {
    if (typeof experiment === "string") {
        return NAMES[experiment] ?? visible(experiment);
    }
    const pause = experiment["think-time"]?.pause_ns;
    return pause === undefined
        ? visible(Object.keys(experiment).join(", "))
        : `a pause of ${duration(pause)} between requests`;
}
